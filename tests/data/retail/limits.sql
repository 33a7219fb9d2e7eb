-- top: the five largest payments
-- clauses: order by, limit
SELECT pay_id, amount FROM payments ORDER BY amount DESC, pay_id LIMIT 5;

-- top_nulls_first: NULL comes first
-- clauses: order by, limit
SELECT order_id, status FROM orders ORDER BY status, order_id LIMIT 7;

-- top_nulls_last: or last
-- clauses: order by, limit
SELECT order_id, status FROM orders ORDER BY status NULLS LAST, order_id DESC LIMIT 7;

-- offset: the next five
-- clauses: order by, limit, offset
SELECT order_id, day FROM orders ORDER BY day DESC, order_id LIMIT 5 OFFSET 5;

-- offset_only: all but the first
-- clauses: order by, offset
SELECT pay_id FROM payments ORDER BY pay_id OFFSET 20;

-- order_only: an order that a view does not keep
-- clauses: order by
SELECT cust_id, name FROM customers ORDER BY name, cust_id;

-- limit_group: the largest groups
-- clauses: order by, limit, group by
SELECT prod_id, sum(qty) AS sold FROM order_lines GROUP BY prod_id ORDER BY sold DESC NULLS LAST, prod_id LIMIT 3;

-- limit_join: over a join
-- clauses: order by, limit, inner join
SELECT o.order_id, l.line, c.name FROM orders o JOIN order_lines l USING (order_id) JOIN customers c ON o.cust_id = c.cust_id ORDER BY l.price DESC, o.order_id, l.line LIMIT 6;

-- limit_inside: joined with the newest orders
-- clauses: order by, limit, inner join, derived table
SELECT t.order_id, l.prod_id FROM (SELECT order_id FROM orders ORDER BY order_id DESC LIMIT 5) t JOIN order_lines l ON t.order_id = l.order_id;

-- limit_then_group: groups of the newest
-- clauses: order by, limit, group by, derived table
SELECT channel, count(*) AS n FROM (SELECT channel FROM orders ORDER BY order_id DESC LIMIT 10) GROUP BY channel;

-- limit_in_subquery: in the newest
-- clauses: order by, limit, in
SELECT name FROM customers WHERE cust_id IN (SELECT cust_id FROM orders ORDER BY order_id DESC LIMIT 6);

-- limit_scalar: a scalar by order
-- clauses: order by, limit, scalar subquery
SELECT (SELECT name FROM employees ORDER BY salary DESC NULLS LAST, emp_id LIMIT 1) AS best_paid, count(*) AS n FROM orders;

-- limit_zero: nothing
-- clauses: limit
SELECT order_id FROM orders LIMIT 0;

-- limit_all: more than there is
-- clauses: order by, limit
SELECT region FROM regions ORDER BY region LIMIT 100;

-- limit_ties: rows that repeat at the edge
-- clauses: order by, limit
SELECT page FROM visits ORDER BY page LIMIT 11;

-- limit_odd: by a column with NaN
-- clauses: order by, limit, odd doubles
SELECT cust_id, credit FROM customers ORDER BY credit DESC, cust_id LIMIT 6;

-- limit_union: over a union
-- clauses: order by, limit, union all
SELECT day FROM orders UNION ALL SELECT day FROM returns ORDER BY day DESC NULLS LAST LIMIT 8;

-- limit_distinct: of different rows
-- clauses: order by, limit, distinct
SELECT DISTINCT cust_id FROM visits ORDER BY cust_id DESC LIMIT 3;

-- limit_expression: by an expression that is not shown
-- clauses: order by, limit
SELECT order_id, line FROM order_lines ORDER BY price * coalesce(qty, 0) DESC, order_id, line LIMIT 4;

-- limit_cte: two limits, joined
-- clauses: order by, limit, cte, full join
WITH newest AS (SELECT order_id, cust_id FROM orders ORDER BY order_id DESC LIMIT 8), oldest AS (SELECT order_id, cust_id FROM orders ORDER BY order_id LIMIT 8)
SELECT n.order_id AS late, o.order_id AS early, coalesce(n.cust_id, o.cust_id) AS cust_id FROM newest n FULL JOIN oldest o ON n.cust_id = o.cust_id;

-- limit_each: limits on the sides of a union
-- clauses: order by, limit, union all
(SELECT order_id FROM orders ORDER BY order_id LIMIT 2) UNION ALL (SELECT order_id FROM orders ORDER BY order_id DESC LIMIT 2);

-- top_per_group: the two newest orders of each customer
-- clauses: row_number, top n per group
SELECT cust_id, order_id FROM (SELECT cust_id, order_id, row_number() OVER (PARTITION BY cust_id ORDER BY order_id DESC) AS n FROM orders) WHERE n <= 2;

-- top_per_group_rank: with ties
-- clauses: rank, top n per group
SELECT store_id, prod_id, moved FROM (SELECT *, rank() OVER (PARTITION BY store_id ORDER BY moved DESC NULLS LAST) AS r FROM stock) WHERE r = 1;

-- qualify: the same in a word
-- clauses: qualify, row_number, top n per group
SELECT cust_id, order_id, day FROM orders QUALIFY row_number() OVER (PARTITION BY cust_id ORDER BY day DESC, order_id) = 1;

-- qualify_group: of groups
-- clauses: qualify, rank, group by
SELECT channel, cust_id, n FROM (SELECT channel, cust_id, count(*) AS n FROM orders GROUP BY channel, cust_id) QUALIFY rank() OVER (PARTITION BY channel ORDER BY n DESC) <= 2;

-- qualify_aggregate: above the average of the group
-- clauses: qualify, window aggregate
SELECT order_id, line, prod_id, price FROM order_lines QUALIFY price > avg(price) OVER (PARTITION BY prod_id);

-- qualify_alias: by a name of the list
-- clauses: qualify, dense_rank
SELECT prod_id, price, dense_rank() OVER (PARTITION BY active ORDER BY price DESC) AS d FROM products QUALIFY d <= 2;

-- second_per_group: exactly the second
-- clauses: row_number, top n per group
SELECT method, pay_id, amount FROM (SELECT *, row_number() OVER (PARTITION BY method ORDER BY amount DESC, pay_id) AS n FROM payments) WHERE n = 2;

-- top_per_group_join: the dearest lines of each category
-- clauses: row_number, top n per group, left join
SELECT cat, title, price FROM (
  SELECT c.cat, p.title, l.price, row_number() OVER (PARTITION BY c.cat ORDER BY l.price DESC, l.order_id, l.line) AS n
  FROM order_lines l JOIN products p ON l.prod_id = p.prod_id LEFT JOIN categories c ON p.cat_id = c.cat_id
) WHERE n <= 3;

-- top_then_group: sums of the three best of each
-- clauses: row_number, top n per group, group by
SELECT prod_id, sum(price) AS best_three FROM (
  SELECT prod_id, price, row_number() OVER (PARTITION BY prod_id ORDER BY price DESC, order_id, line) AS n FROM order_lines
) WHERE n <= 3 GROUP BY prod_id;
