-- star_report: sales by category, region and month
-- clauses: star join, group by
SELECT c.cat, r.region, date_trunc('MONTH', o.day) AS month, sum(l.price * l.qty) AS sales, count(DISTINCT o.order_id) AS orders
FROM order_lines l JOIN orders o USING (order_id) JOIN products p ON l.prod_id = p.prod_id LEFT JOIN categories c ON p.cat_id = c.cat_id
LEFT JOIN stores s ON o.store_id = s.store_id LEFT JOIN regions r ON s.region_id = r.region_id
GROUP BY c.cat, r.region, date_trunc('MONTH', o.day);

-- rollup_rank: products ranked within their category, with subtotals
-- clauses: star join, rollup, rank, grouping_id
SELECT cat, title, sales, rank() OVER (PARTITION BY level, CASE WHEN level = 0 THEN cat END ORDER BY sales DESC) AS r FROM (
  SELECT c.cat, p.title, sum(l.price) AS sales, grouping_id() AS level
  FROM order_lines l JOIN products p USING (prod_id) LEFT JOIN categories c USING (cat_id) GROUP BY ROLLUP (c.cat, p.title)
);

-- year_over_year: each month against the one before
-- clauses: cte, lag, group by
WITH m AS (SELECT date_trunc('MONTH', o.day) AS month, sum(l.price) AS sales FROM orders o JOIN order_lines l USING (order_id) GROUP BY 1)
SELECT month, sales, lag(sales) OVER (ORDER BY month) AS before, sales - lag(sales) OVER (ORDER BY month) AS growth FROM m;

-- same_month_before: the same by a self join
-- clauses: cte, self join, left join, group by
WITH m AS (SELECT trunc(day, 'MM') AS month, count(*) AS n FROM orders GROUP BY trunc(day, 'MM'))
SELECT a.month, a.n, b.n AS before FROM m a LEFT JOIN m b ON add_months(b.month, 1) = a.month;

-- percent_of_total: the share of each channel
-- clauses: window aggregate, group by, percent of total
SELECT channel, count(*) AS n, round(100.0 * count(*) / sum(count(*)) OVER (), 2) AS share FROM orders GROUP BY channel;

-- percent_by_subquery: the same by a scalar subquery
-- clauses: scalar subquery, group by, percent of total
SELECT method, sum(amount) AS s, sum(amount) / (SELECT sum(amount) FROM payments) AS share FROM payments GROUP BY method;

-- percent_by_cross: the same by a cross join
-- clauses: cross join, group by, percent of total
SELECT p.prod_id, sum(p.qty) AS q, max(t.total) AS total FROM order_lines p CROSS JOIN (SELECT sum(qty) AS total FROM order_lines) t GROUP BY p.prod_id;

-- running_total: of days
-- clauses: running sum, group by
SELECT day, n, sum(n) OVER (ORDER BY day) AS total FROM (SELECT day, count(*) AS n FROM orders GROUP BY day);

-- month_to_date: a total that starts anew each month
-- clauses: running sum, group by
SELECT day, sum(amount) OVER (PARTITION BY date_trunc('MONTH', day) ORDER BY day) AS mtd FROM (SELECT CAST(paid AS DATE) AS day, sum(amount) AS amount FROM payments GROUP BY 1);

-- moving_week: an average of seven days
-- clauses: moving average, range frame, interval frame, group by
SELECT day, avg(n) OVER (ORDER BY day RANGE BETWEEN INTERVAL 6 DAYS PRECEDING AND CURRENT ROW) AS week FROM (SELECT day, count(*) AS n FROM orders GROUP BY day);

-- pareto: products that make the first 80 percent
-- clauses: running sum, window aggregate, group by, pareto
SELECT prod_id, sales, running / total AS part FROM (
  SELECT prod_id, sales, sum(sales) OVER (ORDER BY sales DESC, prod_id) AS running, sum(sales) OVER () AS total
  FROM (SELECT prod_id, sum(price) AS sales FROM order_lines WHERE prod_id IS NOT NULL GROUP BY prod_id)
) WHERE running - sales < 0.8 * total;

-- abc: classes A, B and C by their share
-- clauses: running sum, case, group by, abc analysis
SELECT class, count(*) AS products, sum(sales) AS sales FROM (
  SELECT prod_id, sales, CASE WHEN sum(sales) OVER (ORDER BY sales DESC, prod_id) <= 0.5 * sum(sales) OVER () THEN 'A'
    WHEN sum(sales) OVER (ORDER BY sales DESC, prod_id) <= 0.8 * sum(sales) OVER () THEN 'B' ELSE 'C' END AS class
  FROM (SELECT prod_id, sum(price * qty) AS sales FROM order_lines WHERE qty > 0 GROUP BY prod_id)
) GROUP BY class;

-- top_per_category: the two best products of each category
-- clauses: star join, group by, row_number, top n per group
SELECT cat, title, sales FROM (
  SELECT c.cat, p.title, p.prod_id, sum(l.price) AS sales, row_number() OVER (PARTITION BY c.cat ORDER BY sum(l.price) DESC, p.prod_id) AS n
  FROM order_lines l JOIN products p USING (prod_id) LEFT JOIN categories c USING (cat_id) GROUP BY c.cat, p.title, p.prod_id
) WHERE n <= 2;

-- best_store: the store with the most sales in each region
-- clauses: group by, max_by, star join
SELECT region, max_by(store, struct(n, store)) AS best, max(n) AS n FROM (
  SELECT r.region, s.store, count(*) AS n FROM orders o JOIN stores s USING (store_id) JOIN regions r USING (region_id) GROUP BY r.region, s.store
) GROUP BY region;

-- histogram: orders by their size
-- clauses: group by, derived table, histogram
SELECT floor(total / 25) * 25 AS bucket, count(*) AS orders FROM (SELECT order_id, sum(price) AS total FROM order_lines GROUP BY order_id) GROUP BY floor(total / 25) * 25;

-- price_bands: a join with ranges
-- clauses: values, non-equi join, left join, histogram
SELECT b.band, count(p.prod_id) AS n FROM (VALUES ('low', 0, 20), ('mid', 20, 50), ('high', 50, 1000)) AS b(band, lo, hi)
LEFT JOIN products p ON p.price >= b.lo AND p.price < b.hi GROUP BY b.band;

-- basket_pairs: products that are bought together
-- clauses: self join, group by, market basket
SELECT a.prod_id, b.prod_id AS other, count(DISTINCT a.order_id) AS times FROM order_lines a JOIN order_lines b ON a.order_id = b.order_id AND a.prod_id < b.prod_id
GROUP BY a.prod_id, b.prod_id;

-- basket_lift: how much more often than by chance
-- clauses: self join, group by, cte, scalar subquery, market basket
WITH lines AS (SELECT DISTINCT order_id, prod_id FROM order_lines WHERE prod_id IS NOT NULL),
  n AS (SELECT prod_id, count(*) AS n FROM lines GROUP BY prod_id)
SELECT a.prod_id, b.prod_id AS other, count(*) * (SELECT count(DISTINCT order_id) FROM lines) / (max(x.n) * max(y.n)) AS lift
FROM lines a JOIN lines b ON a.order_id = b.order_id AND a.prod_id < b.prod_id JOIN n x ON x.prod_id = a.prod_id JOIN n y ON y.prod_id = b.prod_id
GROUP BY a.prod_id, b.prod_id;

-- median_per_category: the middle price
-- clauses: median, group by, left join
SELECT c.cat, median(p.price) AS m, percentile(p.price, 0.75) AS q3 FROM products p LEFT JOIN categories c USING (cat_id) GROUP BY c.cat;

-- above_group_median: products above it
-- clauses: median, cte, inner join
WITH m AS (SELECT cat_id, median(price) AS mid FROM products GROUP BY cat_id) SELECT p.prod_id, p.price, m.mid FROM products p JOIN m ON p.cat_id = m.cat_id WHERE p.price > m.mid;

-- conversion: paid orders per channel
-- clauses: left join, count distinct, group by
SELECT o.channel, count(DISTINCT o.order_id) AS orders, count(DISTINCT p.order_id) AS paid, count(DISTINCT p.order_id) / count(DISTINCT o.order_id) AS rate
FROM orders o LEFT JOIN payments p ON o.order_id = p.order_id GROUP BY o.channel;

-- open_amounts: what is still to be paid
-- clauses: cte, left join, group by, coalesce
WITH due AS (SELECT order_id, sum(price * qty) AS due FROM order_lines GROUP BY order_id), paid AS (SELECT order_id, sum(amount) AS paid FROM payments GROUP BY order_id)
SELECT d.order_id, d.due, coalesce(p.paid, 0) AS paid, d.due - coalesce(p.paid, 0) AS open FROM due d LEFT JOIN paid p USING (order_id) WHERE d.due > coalesce(p.paid, 0);

-- return_rate: of each product
-- clauses: left join, group by, derived table
SELECT s.prod_id, s.sold, coalesce(r.back, 0) AS back, coalesce(r.back, 0) / s.sold AS rate
FROM (SELECT prod_id, sum(qty) AS sold FROM order_lines GROUP BY prod_id HAVING sum(qty) > 0) s
LEFT JOIN (SELECT prod_id, sum(qty) AS back FROM returns GROUP BY prod_id) r ON s.prod_id = r.prod_id;

-- promotion_effect: lines sold while a promotion ran, and not
-- clauses: exists, case, group by, non-equi correlation
SELECT l.prod_id, count(*) FILTER (WHERE during) AS during, count(*) FILTER (WHERE NOT during) AS outside FROM (
  SELECT l.prod_id, EXISTS (SELECT 1 FROM promotions p WHERE p.prod_id = l.prod_id AND o.day BETWEEN p.starts AND p.ends) AS during
  FROM order_lines l JOIN orders o USING (order_id)
) l GROUP BY l.prod_id;

-- staff: sales of each employee against the average of the store
-- clauses: left join, group by, window aggregate
SELECT e.emp_id, e.store_id, count(o.order_id) AS n, avg(count(o.order_id)) OVER (PARTITION BY e.store_id) AS mean FROM employees e LEFT JOIN orders o ON o.emp_id = e.emp_id GROUP BY e.emp_id, e.store_id;

-- span_of_control: employees of each boss, and their pay
-- clauses: self join, left join, group by
SELECT b.emp_id, b.name, count(e.emp_id) AS staff, sum(e.salary) AS pay, array_join(sort_array(collect_list(e.name)), ',') AS names FROM employees b LEFT JOIN employees e ON e.boss_id = b.emp_id GROUP BY b.emp_id, b.name;

-- category_tree: three levels by self joins
-- clauses: self join, left join
SELECT a.cat, b.cat AS parent, c.cat AS top FROM categories a LEFT JOIN categories b ON a.parent_id = b.cat_id LEFT JOIN categories c ON b.parent_id = c.cat_id;

-- crosstab: channels by status with totals
-- clauses: cube, filter, grouping
SELECT coalesce(channel, if(grouping(channel) = 1, 'ALL', '?')) AS channel, count(*) FILTER (WHERE status = 'paid') AS paid, count(*) FILTER (WHERE status = 'open') AS open, count(*) AS n FROM orders GROUP BY CUBE (channel);

-- exclusion_list: sales without some products and customers
-- clauses: not in, not exists, group by, exclusion list
SELECT o.channel, sum(l.price) AS sales FROM orders o JOIN order_lines l USING (order_id)
WHERE o.cust_id NOT IN (SELECT cust_id FROM customers WHERE vip) AND NOT EXISTS (SELECT 1 FROM returns r WHERE r.order_id = o.order_id) GROUP BY o.channel;

-- first_sale: the first and last day of each product
-- clauses: group by, inner join, left join
SELECT p.prod_id, min(o.day) AS first, max(o.day) AS last, datediff(max(o.day), min(o.day)) AS days FROM products p LEFT JOIN order_lines l ON l.prod_id = p.prod_id LEFT JOIN orders o ON o.order_id = l.order_id GROUP BY p.prod_id;
