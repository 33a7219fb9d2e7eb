-- one_key: counts per status
-- clauses: group by
SELECT status, count(*) AS n FROM orders GROUP BY status;

-- expression_key: by a month
-- clauses: group by
SELECT date_trunc('MONTH', day) AS month, count(*) AS n, count(DISTINCT cust_id) AS customers FROM orders GROUP BY date_trunc('MONTH', day);

-- by_position: keys by place and by alias
-- clauses: group by
SELECT channel, year(day) AS y, count(*) AS n FROM orders GROUP BY 1, y;

-- by_all: all that is not aggregated
-- clauses: group by
SELECT channel, status, min(day) AS first FROM orders GROUP BY ALL;

-- no_key: one row, also of nothing
-- clauses: aggregate without group
SELECT count(*) AS n, sum(amount) AS total, avg(fee) AS fee, max(paid) AS last FROM payments;

-- having: groups with a condition
-- clauses: group by, having
SELECT cust_id, count(*) AS n FROM orders GROUP BY cust_id HAVING count(*) > 2 AND max(day) > DATE '2024-01-01';

-- having_only: the condition has an aggregate that is not shown
-- clauses: group by, having
SELECT prod_id FROM order_lines GROUP BY prod_id HAVING sum(price * qty) > 100;

-- having_no_group: over everything
-- clauses: aggregate without group, having
SELECT count(*) AS n FROM orders HAVING count(*) > 20;

-- distinct: rows once
-- clauses: distinct
SELECT DISTINCT channel, status FROM orders;

-- distinct_of_group: over groups
-- clauses: distinct, group by
SELECT DISTINCT count(*) AS n FROM orders GROUP BY cust_id;

-- group_of_group: groups of groups
-- clauses: group by, derived table
SELECT n, count(*) AS customers, sum(total) AS total FROM (
  SELECT o.cust_id, count(DISTINCT o.order_id) AS n, sum(l.price) AS total FROM orders o JOIN order_lines l USING (order_id) GROUP BY o.cust_id
) GROUP BY n;

-- grouping_sets: three groupings at once
-- clauses: grouping sets
SELECT channel, status, count(*) AS n FROM orders GROUP BY GROUPING SETS ((channel), (status), ());

-- grouping_sets_pairs: with pairs
-- clauses: grouping sets
SELECT channel, store_id, status, count(*) AS n, min(order_id) AS least FROM orders
GROUP BY GROUPING SETS ((channel, status), (store_id, channel), (status));

-- grouping_function: NULL of the data told from NULL of the set
-- clauses: grouping sets, grouping
SELECT status, grouping(status) AS g, count(*) AS n FROM orders GROUP BY GROUPING SETS ((status), ());

-- rollup: with subtotals
-- clauses: rollup
SELECT channel, status, count(*) AS n FROM orders GROUP BY ROLLUP (channel, status);

-- rollup_id: which level a row is of
-- clauses: rollup, grouping_id
SELECT channel, status, grouping_id() AS level, count(*) AS n, max(day) AS last FROM orders GROUP BY ROLLUP (channel, status);

-- rollup_join: sales by region, store
-- clauses: rollup, inner join
SELECT r.region, s.store, sum(l.price * l.qty) AS sales
FROM order_lines l JOIN orders o USING (order_id) JOIN stores s ON o.store_id = s.store_id JOIN regions r ON s.region_id = r.region_id
GROUP BY ROLLUP (r.region, s.store);

-- rollup_having: levels with enough
-- clauses: rollup, having, grouping
SELECT channel, status, count(*) AS n, grouping(channel) AS gc, grouping(status) AS gs FROM orders
GROUP BY ROLLUP (channel, status) HAVING count(*) > 4;

-- rollup_with: the old way to write it
-- clauses: rollup
SELECT year(day) AS y, month(day) AS m, count(*) AS n FROM orders GROUP BY year(day), month(day) WITH ROLLUP;

-- cube: all combinations
-- clauses: cube
SELECT channel, status, count(*) AS n, count(DISTINCT cust_id) AS customers FROM orders GROUP BY CUBE (channel, status);

-- cube_id: with the number of the combination
-- clauses: cube, grouping_id
SELECT grouping_id(channel, store_id) AS id, channel, store_id, count(*) AS n FROM orders GROUP BY CUBE (channel, store_id);

-- cube_measures: several measures
-- clauses: cube, avg
SELECT p.active, p.cat_id, sum(l.qty) AS pieces, avg(l.price) AS price, min(l.discount) AS least
FROM order_lines l JOIN products p ON l.prod_id = p.prod_id GROUP BY CUBE (p.active, p.cat_id);

-- key_and_rollup: a plain key beside a rollup
-- clauses: rollup, group by
SELECT year(day) AS y, channel, status, count(*) AS n FROM orders GROUP BY year(day), ROLLUP (channel, status);

-- two_rollups: a product of two
-- clauses: rollup, cube
SELECT channel, status, store_id, count(*) AS n FROM orders GROUP BY ROLLUP (channel), CUBE (status, store_id);

-- grouping_filter: only the subtotals
-- clauses: rollup, grouping, derived table
SELECT channel, n FROM (
  SELECT channel, status, count(*) AS n, grouping(status) AS g FROM orders GROUP BY ROLLUP (channel, status)
) WHERE g = 1;

-- sets_case: labels for totals
-- clauses: grouping sets, grouping, case
SELECT CASE WHEN grouping(method) = 1 THEN 'all' ELSE coalesce(method, 'none') END AS method, sum(amount) AS total
FROM payments GROUP BY GROUPING SETS ((method), ());
