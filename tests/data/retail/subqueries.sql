-- exists: customers with an order
-- clauses: exists
SELECT cust_id, name FROM customers c WHERE EXISTS (SELECT 1 FROM orders o WHERE o.cust_id = c.cust_id);

-- exists_two: two conditions that must both have rows
-- clauses: exists
SELECT prod_id FROM products p
WHERE EXISTS (SELECT 1 FROM order_lines l WHERE l.prod_id = p.prod_id)
  AND EXISTS (SELECT 1 FROM stock s WHERE s.prod_id = p.prod_id AND s.moved > 0);

-- exists_uncorrelated: all rows or none
-- clauses: exists
SELECT region FROM regions WHERE EXISTS (SELECT 1 FROM orders WHERE status = 'cancelled');

-- exists_join: a join inside
-- clauses: exists, inner join
SELECT c.cust_id FROM customers c WHERE EXISTS (
  SELECT 1 FROM orders o JOIN order_lines l ON o.order_id = l.order_id WHERE o.cust_id = c.cust_id AND l.qty > 2);

-- exists_nested: one inside the other
-- clauses: exists
SELECT c.cust_id FROM customers c WHERE EXISTS (
  SELECT 1 FROM orders o WHERE o.cust_id = c.cust_id AND EXISTS (
    SELECT 1 FROM payments p WHERE p.order_id = o.order_id AND p.method = 'card'));

-- exists_inequality: correlated by a comparison
-- clauses: exists, non-equi correlation
SELECT e.name FROM employees e WHERE EXISTS (SELECT 1 FROM employees x WHERE x.salary > e.salary);

-- exists_or: in a disjunction
-- clauses: exists
SELECT c.cust_id, c.vip FROM customers c
WHERE c.vip OR EXISTS (SELECT 1 FROM visits v WHERE v.cust_id = c.cust_id AND v.page = 'thanks');

-- exists_group: then grouped
-- clauses: exists, group by
SELECT region_id, count(*) AS n FROM customers c
WHERE EXISTS (SELECT 1 FROM orders o WHERE o.cust_id = c.cust_id) GROUP BY region_id;

-- not_exists: orders that nobody paid
-- clauses: not exists
SELECT order_id, day FROM orders o WHERE NOT EXISTS (SELECT 1 FROM payments p WHERE p.order_id = o.order_id);

-- not_exists_two_keys: by two columns
-- clauses: not exists
SELECT l.order_id, l.line FROM order_lines l
WHERE NOT EXISTS (SELECT 1 FROM returns r WHERE r.order_id = l.order_id AND r.prod_id = l.prod_id);

-- not_exists_inequality: the first visit of each customer
-- clauses: not exists, non-equi correlation
SELECT v.cust_id, v.at FROM visits v
WHERE NOT EXISTS (SELECT 1 FROM visits w WHERE w.cust_id = v.cust_id AND w.at < v.at);

-- not_exists_counted: lines of customers who never gave the product back; lines and orders are only counted
-- clauses: not exists, inner join, group by
SELECT p.title, count(*) AS n FROM products p JOIN order_lines l ON l.prod_id = p.prod_id
JOIN orders o ON o.order_id = l.order_id JOIN customers c ON c.cust_id = o.cust_id
WHERE NOT EXISTS (SELECT 1 FROM returns r JOIN orders q ON q.order_id = r.order_id WHERE r.prod_id = p.prod_id AND q.cust_id = c.cust_id)
GROUP BY p.title;

-- not_exists_counted_rows: the same as rows, and nothing but keys is shown of what is counted
-- clauses: not exists, inner join
SELECT l.prod_id, o.channel FROM order_lines l JOIN orders o ON o.order_id = l.order_id
WHERE l.qty > 1 AND NOT EXISTS (SELECT 1 FROM returns r WHERE r.prod_id = l.prod_id AND r.reason = o.channel);

-- not_exists_counted_nulls: keys that are equal as NULL or not at all
-- clauses: not exists, inner join, group by
SELECT x.name, sum(l.qty) AS n, count(*) AS m FROM customers x JOIN orders o ON o.cust_id <=> x.cust_id
JOIN order_lines l ON l.order_id = o.order_id, products p JOIN stock s ON s.prod_id = p.prod_id
WHERE p.prod_id = l.prod_id AND NOT EXISTS (SELECT 1 FROM returns r WHERE r.prod_id <=> p.prod_id) GROUP BY x.name;

-- not_exists_double: customers who ordered from every channel
-- clauses: not exists, except, cross join
SELECT c.cust_id FROM customers c WHERE NOT EXISTS (
  SELECT 1 FROM (
    SELECT x.cust_id, ch.channel FROM customers x CROSS JOIN (SELECT DISTINCT channel FROM orders) ch
    EXCEPT SELECT cust_id, channel FROM orders
  ) missing WHERE missing.cust_id = c.cust_id);

-- not_exists_group: grouped after
-- clauses: not exists, group by
SELECT channel, count(*) AS unpaid FROM orders o
WHERE NOT EXISTS (SELECT 1 FROM payments p WHERE p.order_id = o.order_id AND p.amount > 20) GROUP BY channel;

-- in: products that were returned
-- clauses: in
SELECT prod_id, title FROM products WHERE prod_id IN (SELECT prod_id FROM returns);

-- in_correlated: with a correlation as well
-- clauses: in
SELECT o.order_id FROM orders o WHERE o.day IN (SELECT CAST(p.paid AS DATE) FROM payments p WHERE p.order_id = o.order_id);

-- in_tuple: two columns
-- clauses: in
SELECT order_id, prod_id, qty FROM order_lines WHERE (order_id, prod_id) IN (SELECT order_id, prod_id FROM returns);

-- in_group: from groups
-- clauses: in, group by, having
SELECT order_id, cust_id FROM orders
WHERE cust_id IN (SELECT cust_id FROM orders GROUP BY cust_id HAVING count(*) > 3);

-- not_in: with a NULL among the values nothing is left
-- clauses: not in, null keys
SELECT prod_id FROM products WHERE prod_id NOT IN (SELECT prod_id FROM order_lines);

-- not_in_filtered: without the NULLs
-- clauses: not in
SELECT prod_id FROM products WHERE prod_id NOT IN (SELECT prod_id FROM order_lines WHERE prod_id IS NOT NULL);

-- not_in_null_left: a NULL on the left is in nothing, but for no rows at all
-- clauses: not in, null keys
SELECT cust_id, region_id FROM customers
WHERE region_id NOT IN (SELECT region_id FROM stores WHERE region_id IS NOT NULL);

-- not_in_correlated: per row
-- clauses: not in
SELECT o.order_id FROM orders o
WHERE o.channel NOT IN (SELECT p.method FROM payments p WHERE p.order_id = o.order_id);

-- not_in_group: counted
-- clauses: not in, group by
SELECT status, count(*) AS n FROM orders WHERE order_id NOT IN (SELECT order_id FROM returns WHERE order_id IS NOT NULL)
GROUP BY status;

-- scalar_where: above the average
-- clauses: scalar subquery
SELECT prod_id, price FROM products WHERE price > (SELECT avg(price) FROM products);

-- scalar_select: a share of the total
-- clauses: scalar subquery
SELECT pay_id, amount, (SELECT max(amount) FROM payments) AS most FROM payments;

-- scalar_two: two of them in an expression
-- clauses: scalar subquery
SELECT emp_id, salary - (SELECT min(salary) FROM employees) AS over,
  (SELECT count(*) FROM employees) AS n FROM employees;

-- scalar_having: groups above the average of all
-- clauses: scalar subquery, having, group by
SELECT cust_id, count(*) AS n FROM orders GROUP BY cust_id
HAVING count(*) > (SELECT count(*) / count(DISTINCT cust_id) FROM orders);

-- scalar_empty: nothing found is NULL
-- clauses: scalar subquery
SELECT region, (SELECT max(day) FROM orders WHERE status = 'unheard of') AS never FROM regions;

-- scalar_correlated: the number of orders of each customer
-- clauses: correlated scalar subquery
SELECT c.cust_id, (SELECT count(*) FROM orders o WHERE o.cust_id = c.cust_id) AS n FROM customers c;

-- scalar_correlated_sum: NULL where there is none
-- clauses: correlated scalar subquery
SELECT o.order_id, (SELECT sum(p.amount) FROM payments p WHERE p.order_id = o.order_id) AS paid FROM orders o;

-- scalar_correlated_where: lines above the average of their product
-- clauses: correlated scalar subquery
SELECT l.order_id, l.line, l.price FROM order_lines l
WHERE l.price > (SELECT avg(x.price) FROM order_lines x WHERE x.prod_id = l.prod_id);

-- scalar_correlated_max: the last order of each customer
-- clauses: correlated scalar subquery
SELECT o.cust_id, o.order_id, o.day FROM orders o
WHERE o.placed = (SELECT max(x.placed) FROM orders x WHERE x.cust_id = o.cust_id);

-- scalar_correlated_inequality: how many are paid more
-- clauses: correlated scalar subquery, non-equi correlation
SELECT e.emp_id, (SELECT count(*) FROM employees x WHERE x.salary > e.salary) AS above FROM employees e;

-- scalar_correlated_range: orders in the time of a promotion
-- clauses: correlated scalar subquery, non-equi correlation
SELECT p.promo_id, (SELECT count(*) FROM orders o WHERE o.day BETWEEN p.starts AND p.ends) AS during FROM promotions p;

-- scalar_correlated_two: by equality and by a comparison
-- clauses: correlated scalar subquery, non-equi correlation
SELECT o.order_id, o.cust_id,
  (SELECT count(*) FROM orders x WHERE x.cust_id = o.cust_id AND x.placed < o.placed) AS before FROM orders o;

-- scalar_correlated_having: in the condition of groups
-- clauses: correlated scalar subquery, having, group by
SELECT l.prod_id, sum(l.qty) AS sold FROM order_lines l GROUP BY l.prod_id
HAVING sum(l.qty) > (SELECT coalesce(sum(r.qty), 0) * 3 FROM returns r WHERE r.prod_id = l.prod_id);

-- scalar_correlated_join: with a join inside
-- clauses: correlated scalar subquery, inner join
SELECT c.cust_id, (SELECT sum(l.qty) FROM orders o JOIN order_lines l ON o.order_id = l.order_id
  WHERE o.cust_id = c.cust_id) AS pieces FROM customers c;

-- scalar_case: inside CASE
-- clauses: scalar subquery, case
SELECT prod_id, CASE WHEN price > (SELECT avg(price) FROM products) THEN 'dear' ELSE 'cheap' END AS class FROM products;

-- all_comparison: at least as dear as all others
-- clauses: not exists, non-equi correlation
SELECT p.prod_id FROM products p
WHERE NOT EXISTS (SELECT 1 FROM products q WHERE q.cat_id = p.cat_id AND q.price > p.price);

-- subquery_over_subquery: in FROM, WHERE and SELECT at once
-- clauses: scalar subquery, in, derived table, group by
SELECT t.cust_id, t.n, (SELECT max(day) FROM orders) AS newest
FROM (SELECT cust_id, count(*) AS n FROM orders GROUP BY cust_id) t
WHERE t.cust_id IN (SELECT cust_id FROM customers WHERE region_id = 2);
