-- one: a name for a query
-- clauses: cte
WITH web AS (SELECT * FROM orders WHERE channel = 'web') SELECT order_id, day FROM web WHERE status = 'paid';

-- twice: used on both sides of a join
-- clauses: cte, self join
WITH t AS (SELECT cust_id, count(*) AS n FROM orders GROUP BY cust_id)
SELECT a.cust_id, b.cust_id AS other FROM t a JOIN t b ON a.n = b.n AND a.cust_id < b.cust_id;

-- chain: one over the other
-- clauses: cte, group by
WITH totals AS (SELECT order_id, sum(price * qty) AS total FROM order_lines GROUP BY order_id),
     per_customer AS (SELECT o.cust_id, sum(t.total) AS spent FROM orders o JOIN totals t USING (order_id) GROUP BY o.cust_id)
SELECT c.name, p.spent FROM per_customer p JOIN customers c ON p.cust_id = c.cust_id;

-- nested: a WITH inside a WITH
-- clauses: cte
WITH outside AS (WITH inside AS (SELECT prod_id, qty FROM order_lines WHERE qty > 1) SELECT prod_id, sum(qty) AS n FROM inside GROUP BY prod_id)
SELECT prod_id, n FROM outside WHERE n > 2;

-- shadow: the inner name hides the table
-- clauses: cte
WITH orders AS (SELECT order_id, cust_id FROM orders WHERE status = 'paid') SELECT cust_id, count(*) AS n FROM orders GROUP BY cust_id;

-- columns: named in the header
-- clauses: cte
WITH t(id, n) AS (SELECT store_id, count(*) FROM orders GROUP BY store_id) SELECT s.store, t.n FROM t JOIN stores s ON s.store_id = t.id;

-- in_subquery: read in a condition
-- clauses: cte, in
WITH good AS (SELECT cust_id FROM customers WHERE region_id = 2) SELECT order_id FROM orders WHERE cust_id IN (SELECT cust_id FROM good);

-- average_of_counts: an aggregate of aggregates, compared with its parts
-- clauses: cte, scalar subquery, group by
WITH t AS (SELECT store_id, count(*) AS n FROM orders GROUP BY store_id)
SELECT store_id, n FROM t WHERE n > (SELECT avg(n) FROM t);

-- left_twice: outer joined with two of its own filters
-- clauses: cte, left join
WITH l AS (SELECT order_id, prod_id, qty FROM order_lines)
SELECT a.order_id, a.qty AS sevens, b.qty AS ones
FROM (SELECT * FROM l WHERE prod_id = 7) a LEFT JOIN (SELECT * FROM l WHERE prod_id = 1) b ON a.order_id = b.order_id;

-- union_of_ctes: two names together
-- clauses: cte, union all
WITH sold AS (SELECT prod_id, qty AS n FROM order_lines), back AS (SELECT prod_id, -qty AS n FROM returns)
SELECT prod_id, sum(n) AS net FROM (SELECT * FROM sold UNION ALL SELECT * FROM back) GROUP BY prod_id;

-- values: a list of rows as a table
-- clauses: cte, values, left join
WITH wanted(method, label) AS (VALUES ('card', 'Card'), ('cash', 'Cash'), ('cheque', 'Cheque'))
SELECT w.label, count(p.pay_id) AS n FROM wanted w LEFT JOIN payments p ON p.method = w.method GROUP BY w.label;

-- three_deep: derived tables in derived tables
-- clauses: derived table, group by
SELECT n, count(*) AS customers FROM (
  SELECT cust_id, count(*) AS n FROM (
    SELECT cust_id, order_id FROM (SELECT * FROM orders WHERE cust_id IS NOT NULL) a WHERE status <> 'cancelled'
  ) b GROUP BY cust_id
) c GROUP BY n;
