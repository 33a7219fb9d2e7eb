-- balance: what is in stock now
-- clauses: sum, group by, inventory balance
SELECT store_id, prod_id, sum(moved) AS level, max(day) AS last FROM stock GROUP BY store_id, prod_id;

-- balance_over_time: at each day
-- clauses: running sum, group by, inventory balance
SELECT store_id, prod_id, day, sum(moved) OVER (PARTITION BY store_id, prod_id ORDER BY day) AS level FROM (SELECT store_id, prod_id, day, sum(moved) AS moved FROM stock GROUP BY store_id, prod_id, day);

-- shortage: what went below zero, and when first
-- clauses: running sum, group by, inventory balance
SELECT prod_id, min(day) AS first FROM (
  SELECT prod_id, day, sum(moved) OVER (PARTITION BY prod_id ORDER BY day) AS level FROM (SELECT prod_id, day, sum(moved) AS moved FROM stock GROUP BY prod_id, day)
) WHERE level < 20 GROUP BY prod_id;

-- balance_all: from stock, sales and returns
-- clauses: union all, group by, left join, inventory balance
SELECT p.prod_id, p.title, coalesce(sum(m.n), 0) AS level FROM products p LEFT JOIN (
  SELECT prod_id, moved AS n FROM stock UNION ALL SELECT prod_id, -qty FROM order_lines UNION ALL SELECT prod_id, qty FROM returns
) m ON m.prod_id = p.prod_id GROUP BY p.prod_id, p.title;

-- empty_shelves: stores and products that never met
-- clauses: cross join, anti join, inventory balance
SELECT s.store, p.title FROM stores s CROSS JOIN products p LEFT ANTI JOIN stock k ON k.store_id = s.store_id AND k.prod_id = p.prod_id;

-- filled_calendar: every store and month, with zero where nothing was
-- clauses: cross join, explode, sequence, left join, group by
SELECT s.store, m.month, coalesce(sum(k.moved), 0) AS moved FROM stores s
CROSS JOIN (SELECT explode(sequence(DATE '2023-11-01', DATE '2024-01-01', INTERVAL 1 MONTH)) AS month) m
LEFT JOIN stock k ON k.store_id = s.store_id AND date_trunc('MONTH', k.day) = m.month GROUP BY s.store, m.month;

-- turnover: sold against the average level
-- clauses: cte, inner join, group by
WITH sold AS (SELECT prod_id, sum(qty) AS sold FROM order_lines GROUP BY prod_id), held AS (SELECT prod_id, avg(moved) AS held FROM stock WHERE moved > 0 GROUP BY prod_id)
SELECT s.prod_id, s.sold / h.held AS turnover FROM sold s JOIN held h ON s.prod_id = h.prod_id;

-- slow_movers: products in stock that nobody bought
-- clauses: semi join, anti join
SELECT p.prod_id, p.title FROM products p LEFT SEMI JOIN stock k ON k.prod_id = p.prod_id LEFT ANTI JOIN order_lines l ON l.prod_id = p.prod_id AND l.qty > 4;

-- price_changes: each price against the one before
-- clauses: lag, inner join
SELECT prod_id, order_id, line, price, price - lag(price) OVER (PARTITION BY prod_id ORDER BY order_id, line) AS changed FROM order_lines;

-- price_spread: prices of lines against the list
-- clauses: inner join, group by, case
SELECT p.prod_id, p.price, count(CASE WHEN l.price < p.price THEN 1 END) AS below, count(CASE WHEN l.price >= p.price THEN 1 END) AS above FROM products p JOIN order_lines l USING (prod_id) GROUP BY p.prod_id, p.price;

-- supplier_share: of each category
-- clauses: inner join, group by, window aggregate, percent of total
SELECT p.cat_id, s.supplier, count(*) AS n, count(*) / sum(count(*)) OVER (PARTITION BY p.cat_id) AS share FROM products p JOIN suppliers s ON p.supp_id = s.supp_id GROUP BY p.cat_id, s.supplier;

-- supplier_rating: weighted by sales
-- clauses: inner join, group by, odd doubles
SELECT s.country, sum(s.rating * l.qty) / sum(l.qty) AS rating FROM suppliers s JOIN products p USING (supp_id) JOIN order_lines l USING (prod_id) WHERE l.qty IS NOT NULL GROUP BY s.country;

-- single_source: categories with one supplier only
-- clauses: group by, having, count distinct
SELECT cat_id, min(supp_id) AS supp_id FROM products WHERE supp_id IS NOT NULL GROUP BY cat_id HAVING count(DISTINCT supp_id) = 1;

-- overlapping: promotions of one product that overlap
-- clauses: self join, non-equi join
SELECT a.promo_id, b.promo_id AS other, greatest(a.starts, b.starts) AS from_day, least(a.ends, b.ends) AS to_day FROM promotions a JOIN promotions b ON a.prod_id = b.prod_id AND a.promo_id < b.promo_id AND a.starts <= b.ends AND b.starts <= a.ends;

-- merged_ranges: promotions of one product merged where they overlap
-- clauses: running max, running sum, group by, gaps and islands
SELECT prod_id, min(starts) AS starts, max(ends) AS ends, count(*) AS n FROM (
  SELECT prod_id, starts, ends, sum(new) OVER (PARTITION BY prod_id ORDER BY starts, promo_id) AS island FROM (
    SELECT *, CASE WHEN starts <= max(ends) OVER (PARTITION BY prod_id ORDER BY starts, promo_id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) THEN 0 ELSE 1 END AS new FROM promotions)
) GROUP BY prod_id, island;

-- as_of: the promotion that started last before each order
-- clauses: max_by, left join, non-equi join, group by
SELECT o.order_id, l.line, max_by(p.promo_id, struct(p.starts, p.promo_id)) AS promo FROM orders o JOIN order_lines l USING (order_id) LEFT JOIN promotions p ON p.prod_id = l.prod_id AND p.starts <= o.day GROUP BY o.order_id, l.line;

-- quartiles: products by price, and what they sold
-- clauses: ntile, left join, group by
SELECT q, count(DISTINCT prod_id) AS products, sum(qty) AS sold FROM (
  SELECT p.prod_id, p.q, l.qty FROM (SELECT prod_id, ntile(4) OVER (ORDER BY price, prod_id) AS q FROM products) p LEFT JOIN order_lines l ON l.prod_id = p.prod_id
) GROUP BY q;

-- outliers: lines far from the mean of their product
-- clauses: window aggregate, stddev
SELECT order_id, line, prod_id, price FROM (SELECT *, avg(price) OVER (PARTITION BY prod_id) AS mean, stddev_pop(price) OVER (PARTITION BY prod_id) AS dev FROM order_lines) WHERE abs(price - mean) > 1.2 * dev;

-- tag_share: how often tags are in baskets
-- clauses: lateral view, explode, group by, scalar subquery, array column
SELECT tag, count(DISTINCT basket_id) AS baskets, count(DISTINCT basket_id) / (SELECT count(*) FROM baskets) AS share FROM baskets LATERAL VIEW explode(tags) t AS tag GROUP BY tag;

-- basket_value: items with today's prices
-- clauses: lateral view, explode, left join, group by, array column
SELECT b.basket_id, sum(i.qty * p.price) AS value, count(p.prod_id) AS known FROM (SELECT basket_id, item.prod AS prod, item.qty AS qty FROM baskets LATERAL VIEW explode(items) t AS item) i
RIGHT JOIN baskets b ON b.basket_id = i.basket_id LEFT JOIN products p ON p.prod_id = i.prod GROUP BY b.basket_id;

-- audit: sums that should agree, side by side
-- clauses: scalar subquery, union all
SELECT 'orders' AS what, (SELECT count(*) FROM orders) AS here, (SELECT count(DISTINCT order_id) FROM order_lines) AS there
UNION ALL SELECT 'payments', (SELECT count(*) FROM payments), (SELECT count(*) FROM payments WHERE order_id IN (SELECT order_id FROM orders));
