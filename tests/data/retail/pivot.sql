-- pivot: counts per channel in columns
-- clauses: pivot
SELECT * FROM (SELECT status, channel, order_id FROM orders) PIVOT (count(order_id) FOR channel IN ('web', 'shop', 'phone'));

-- pivot_sum: sums, with names
-- clauses: pivot, sum
SELECT * FROM (SELECT method, month(paid) AS m, amount FROM payments) PIVOT (sum(amount) FOR m IN (11 AS nov, 12 AS dec, 1 AS jan));

-- pivot_two: two aggregates
-- clauses: pivot, avg
SELECT * FROM (SELECT prod_id, line, qty, price FROM order_lines) PIVOT (sum(qty) AS q, avg(price) AS p FOR line IN (1 AS one, 2 AS two));

-- pivot_keys: by two columns
-- clauses: pivot
SELECT * FROM (SELECT cust_id, channel, status, order_id FROM orders) PIVOT (max(order_id) FOR (channel, status) IN (('web', 'paid') AS web_paid, ('shop', 'open') AS shop_open));

-- pivot_join: over a join
-- clauses: pivot, inner join
SELECT * FROM (SELECT p.title, o.channel, l.qty FROM order_lines l JOIN orders o USING (order_id) JOIN products p ON l.prod_id = p.prod_id)
PIVOT (sum(qty) FOR channel IN ('web' AS web, 'shop' AS shop));

-- pivot_no_group: one row
-- clauses: pivot
SELECT * FROM (SELECT channel FROM orders) PIVOT (count(*) FOR channel IN ('web' AS web, 'phone' AS phone));

-- pivot_by_hand: with FILTER
-- clauses: filter, group by
SELECT cust_id, count(*) FILTER (WHERE channel = 'web') AS web, count(*) FILTER (WHERE channel = 'shop') AS shop FROM orders GROUP BY cust_id;

-- pivot_by_case: with CASE
-- clauses: case, sum, group by
SELECT prod_id, sum(CASE WHEN line = 1 THEN qty END) AS first, sum(CASE WHEN line > 1 THEN qty ELSE 0 END) AS other FROM order_lines GROUP BY prod_id;

-- unpivot: columns as rows
-- clauses: unpivot
SELECT * FROM (SELECT order_id, line, CAST(qty AS DOUBLE) AS qty, CAST(price AS DOUBLE) AS price, discount FROM order_lines) UNPIVOT (value FOR what IN (qty, price, discount));

-- unpivot_nulls: with those that are NULL
-- clauses: unpivot
SELECT * FROM (SELECT cust_id, name, email FROM customers) UNPIVOT INCLUDE NULLS (value FOR what IN (name AS n, email AS e));

-- unpivot_group: then grouped
-- clauses: unpivot, group by
SELECT what, count(*) AS n, avg(value) AS mean FROM (SELECT prod_id, CAST(price AS DOUBLE) AS price, CAST(prod_id AS DOUBLE) AS id FROM products)
UNPIVOT (value FOR what IN (price, id)) GROUP BY what;

-- pivot_then_filter: a condition on the columns that were made
-- clauses: pivot, where
SELECT * FROM (SELECT cust_id, channel, order_id FROM orders) PIVOT (count(order_id) FOR channel IN ('web' AS web, 'shop' AS shop)) WHERE web > 1;
