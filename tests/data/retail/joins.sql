-- inner: orders with their customers
-- clauses: inner join
SELECT o.order_id, c.name FROM orders o JOIN customers c ON o.cust_id = c.cust_id;

-- star: lines with everything they refer to
-- clauses: inner join, star join
SELECT l.order_id, l.line, c.name, p.title, s.store
FROM order_lines l
JOIN orders o ON l.order_id = o.order_id
JOIN customers c ON o.cust_id = c.cust_id
JOIN products p ON l.prod_id = p.prod_id
JOIN stores s ON o.store_id = s.store_id;

-- left: every order, with its customer where there is one
-- clauses: left join
SELECT o.order_id, o.cust_id, c.name FROM orders o LEFT JOIN customers c ON o.cust_id = c.cust_id;

-- left_condition_on_left: a condition on the left side in ON pads and does not filter
-- clauses: left join
SELECT o.order_id, o.status, c.name
FROM orders o LEFT JOIN customers c ON o.cust_id = c.cust_id AND o.status = 'paid';

-- left_condition_on_right: a condition on the right side in ON
-- clauses: left join
SELECT c.cust_id, o.order_id
FROM customers c LEFT JOIN orders o ON c.cust_id = o.cust_id AND o.channel = 'web';

-- left_where_null: the rows without a partner
-- clauses: left join, where
SELECT p.prod_id, p.title FROM products p LEFT JOIN order_lines l ON p.prod_id = l.prod_id
WHERE l.order_id IS NULL;

-- left_chain: a chain of outer joins, the second over a padded key
-- clauses: left join
SELECT o.order_id, c.name, r.region
FROM orders o LEFT JOIN customers c ON o.cust_id = c.cust_id LEFT JOIN regions r ON c.region_id = r.region_id;

-- left_inequality: an outer join by a range
-- clauses: left join, non-equi join
SELECT o.order_id, p.promo_id
FROM orders o LEFT JOIN promotions p ON o.day >= p.starts AND o.day <= p.ends AND p.rate > 0.2;

-- right: every product, with its lines
-- clauses: right join
SELECT l.order_id, p.prod_id, p.title FROM order_lines l RIGHT JOIN products p ON l.prod_id = p.prod_id;

-- right_two_keys: by two columns
-- clauses: right join
SELECT r.order_id, r.reason, l.line, l.qty
FROM returns r RIGHT JOIN order_lines l ON r.order_id = l.order_id AND r.prod_id = l.prod_id;

-- full: stores and the regions that customers live in
-- clauses: full join
SELECT c.cust_id, c.region_id, r.region FROM customers c FULL JOIN regions r ON c.region_id = r.region_id;

-- full_duplicates: rows that repeat on both sides
-- clauses: full join
SELECT s.store_id, s.prod_id, s.moved, r.qty, r.reason
FROM stock s FULL OUTER JOIN returns r ON s.prod_id = r.prod_id AND s.moved = r.qty;

-- full_group: groups of a full join
-- clauses: full join, group by
SELECT coalesce(o.order_id, p.order_id) AS id, count(p.pay_id) AS n, sum(p.amount) AS paid
FROM orders o FULL JOIN payments p ON o.order_id = p.order_id
GROUP BY coalesce(o.order_id, p.order_id);

-- full_using: the shared column is the one that is there
-- clauses: full join, using
SELECT order_id, o.status, p.amount FROM orders o FULL JOIN payments p USING (order_id);

-- semi: customers who ordered on the web
-- clauses: semi join
SELECT c.cust_id, c.name FROM customers c LEFT SEMI JOIN orders o ON c.cust_id = o.cust_id AND o.channel = 'web';

-- semi_duplicates: repeated rows on the left stay repeated
-- clauses: semi join
SELECT v.cust_id, v.page FROM visits v LEFT SEMI JOIN orders o ON v.cust_id = o.cust_id;

-- semi_inequality: a semi join with another comparison
-- clauses: semi join, non-equi join
SELECT p.prod_id, p.price FROM products p LEFT SEMI JOIN order_lines l ON p.prod_id = l.prod_id AND l.price > p.price;

-- anti: customers without orders
-- clauses: anti join
SELECT c.cust_id, c.name FROM customers c LEFT ANTI JOIN orders o ON c.cust_id = o.cust_id;

-- anti_null_keys: a NULL key matches nothing, so its row stays
-- clauses: anti join, null keys
SELECT v.page, v.cust_id FROM visits v ANTI JOIN customers c ON v.cust_id = c.cust_id;

-- anti_condition: with a condition on both sides
-- clauses: anti join, non-equi join
SELECT o.order_id, o.day FROM orders o ANTI JOIN returns r ON o.order_id = r.order_id AND r.day > o.day;

-- anti_group: counts of what has no partner
-- clauses: anti join, group by
SELECT o.channel, count(*) AS n FROM orders o ANTI JOIN payments p ON o.order_id = p.order_id GROUP BY o.channel;

-- cross: every store with every region
-- clauses: cross join
SELECT s.store, r.region FROM stores s CROSS JOIN regions r;

-- cross_comma: commas, and a condition in WHERE
-- clauses: cross join, where
SELECT s.store, e.name FROM stores s, employees e WHERE s.store_id = e.store_id OR e.store_id IS NULL;

-- using: the shared column once
-- clauses: inner join, using
SELECT order_id, line, status FROM orders JOIN order_lines USING (order_id);

-- using_star: a star over USING
-- clauses: inner join, using
SELECT * FROM stores JOIN regions USING (region_id);

-- natural: joined by the columns of the same name
-- clauses: natural join
SELECT store, region, country FROM stores NATURAL JOIN regions;

-- natural_left: the same, outer
-- clauses: natural join, left join
SELECT region_id, store, region FROM stores NATURAL LEFT JOIN regions;

-- left_using: the column of the left side
-- clauses: left join, using
SELECT cust_id, c.name, o.order_id FROM customers c LEFT JOIN orders o USING (cust_id);

-- right_using: the column of the right side
-- clauses: right join, using
SELECT cust_id, o.order_id, c.name FROM orders o RIGHT JOIN customers c USING (cust_id);

-- null_safe: NULL joins with NULL
-- clauses: inner join, null-safe join
SELECT c.cust_id, r.region FROM customers c JOIN regions r ON c.region_id <=> r.region_id;

-- self: employees with their bosses
-- clauses: self join
SELECT e.name, b.name AS boss FROM employees e JOIN employees b ON e.boss_id = b.emp_id;

-- self_left: with those who have none
-- clauses: self join, left join
SELECT e.name, b.name AS boss, b.salary - e.salary AS gap
FROM employees e LEFT JOIN employees b ON e.boss_id = b.emp_id;

-- self_range: pairs of employees, by salary
-- clauses: self join, non-equi join
SELECT a.emp_id, b.emp_id AS other FROM employees a JOIN employees b ON a.salary > b.salary;

-- expression_keys: joined by expressions
-- clauses: inner join
SELECT a.supplier, b.supplier AS other
FROM suppliers a JOIN suppliers b ON lower(a.supplier) = lower(b.supplier) AND a.supp_id < b.supp_id;

-- or_condition: a join by one of two columns
-- clauses: inner join, non-equi join
SELECT c.cust_id, s.store FROM customers c JOIN stores s ON c.region_id = s.region_id OR s.store_id = c.cust_id;

-- left_group_count: zero for those without
-- clauses: left join, group by
SELECT c.cust_id, count(o.order_id) AS n, max(o.day) AS last
FROM customers c LEFT JOIN orders o ON c.cust_id = o.cust_id GROUP BY c.cust_id;

-- left_distinct: different values of a padded column
-- clauses: left join, distinct
SELECT DISTINCT r.region FROM customers c LEFT JOIN regions r ON c.region_id = r.region_id;

-- inner_then_left: a subquery with an inner join, outer joined
-- clauses: left join, inner join, derived table
SELECT c.cust_id, t.order_id, t.title
FROM customers c LEFT JOIN (
  SELECT o.cust_id, o.order_id, p.title FROM orders o
  JOIN order_lines l ON o.order_id = l.order_id JOIN products p ON l.prod_id = p.prod_id
) t ON c.cust_id = t.cust_id;

-- left_on_group: an outer join with groups
-- clauses: left join, group by, derived table
SELECT p.prod_id, p.title, t.sold, t.lines
FROM products p LEFT JOIN (
  SELECT prod_id, sum(qty) AS sold, count(*) AS lines FROM order_lines GROUP BY prod_id
) t ON p.prod_id = t.prod_id;

-- full_on_groups: groups on both sides
-- clauses: full join, group by, derived table
SELECT coalesce(a.prod_id, b.prod_id) AS prod_id, a.sold, b.back
FROM (SELECT prod_id, sum(qty) AS sold FROM order_lines GROUP BY prod_id) a
FULL JOIN (SELECT prod_id, sum(qty) AS back FROM returns GROUP BY prod_id) b ON a.prod_id = b.prod_id;
