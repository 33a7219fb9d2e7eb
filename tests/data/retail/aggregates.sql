-- sums: of all kinds of numbers
-- clauses: sum
SELECT prod_id, sum(qty) AS q, sum(price) AS p, sum(discount) AS d, sum(price * qty * 2) AS x FROM order_lines GROUP BY prod_id;

-- averages: of all kinds of numbers
-- clauses: avg
SELECT method, avg(amount) AS a, avg(fee) AS f, avg(order_id) AS i FROM payments GROUP BY method;

-- extremes: of dates, texts, times and numbers
-- clauses: min, max
SELECT channel, min(day) AS d1, max(placed) AS t2, min(status) AS s1, max(cust_id) AS c2 FROM orders GROUP BY channel;

-- extremes_odd: NaN is larger than all
-- clauses: min, max, odd doubles
SELECT page, min(score) AS least, max(score) AS most, count(score) AS n FROM visits GROUP BY page;

-- count_columns: rows with all of them
-- clauses: count
SELECT page, count(*) AS n, count(ms) AS m, count(ms, score) AS both, count(1) AS ones FROM visits GROUP BY page;

-- count_if: rows for which it holds
-- clauses: count_if
SELECT page, count_if(ms > 500) AS slow, count_if(cust_id IS NULL) AS unknown FROM visits GROUP BY page;

-- count_distinct: different values
-- clauses: count distinct
SELECT channel, count(DISTINCT cust_id) AS customers, count(DISTINCT status) AS statuses FROM orders GROUP BY channel;

-- count_distinct_pairs: different pairs
-- clauses: count distinct
SELECT count(DISTINCT store_id, prod_id) AS pairs, count(DISTINCT store_id) AS stores FROM stock;

-- sum_distinct: each value once
-- clauses: sum distinct
SELECT store_id, sum(DISTINCT moved) AS s, avg(DISTINCT moved) AS a FROM stock GROUP BY store_id;

-- filter: conditions on aggregates
-- clauses: filter
SELECT cust_id, count(*) FILTER (WHERE status = 'paid') AS paid, max(day) FILTER (WHERE channel = 'web') AS web FROM orders GROUP BY cust_id;

-- filter_distinct: of different values
-- clauses: filter, count distinct
SELECT page, count(DISTINCT cust_id) FILTER (WHERE ms > 100) AS n, sum(ms) FILTER (WHERE score > 0) AS s FROM visits GROUP BY page;

-- filter_no_group: over everything
-- clauses: filter, aggregate without group
SELECT count(*) FILTER (WHERE method = 'card') AS cards, sum(amount) FILTER (WHERE amount < 0) AS negative, avg(amount) FILTER (WHERE fee IS NULL) AS free FROM payments;

-- stddev: of samples
-- clauses: stddev
SELECT method, stddev(amount) AS s, stddev_samp(fee) AS f FROM payments GROUP BY method;

-- stddev_pop: of all
-- clauses: stddev_pop
SELECT prod_id, stddev_pop(price) AS s, stddev_pop(qty) AS q FROM order_lines GROUP BY prod_id;

-- variance: of samples
-- clauses: variance
SELECT channel, variance(order_id) AS v, var_samp(cust_id) AS w FROM orders GROUP BY channel;

-- var_pop: of all
-- clauses: var_pop, aggregate without group
SELECT var_pop(amount) AS v, var_pop(fee) AS f FROM payments;

-- skewness: the third and fourth moment
-- clauses: skewness, kurtosis
SELECT skewness(price) AS s, kurtosis(price) AS k FROM order_lines;

-- percentile: exact, between the values
-- clauses: percentile
SELECT prod_id, percentile(price, 0.5) AS p50, percentile(price, 0.9) AS p90 FROM order_lines GROUP BY prod_id;

-- percentile_array: several at once
-- clauses: percentile
-- refused: AGGREGATE
SELECT percentile(price, array(0.25, 0.5, 0.75)) AS quartiles FROM order_lines;

-- percentile_cont: in the words of the standard
-- clauses: percentile_cont
SELECT method, percentile_cont(0.5) WITHIN GROUP (ORDER BY amount) AS m, percentile_cont(0.1) WITHIN GROUP (ORDER BY fee DESC) AS f FROM payments GROUP BY method;

-- percentile_disc: one of the values
-- clauses: percentile_disc
SELECT method, percentile_disc(0.5) WITHIN GROUP (ORDER BY fee) AS m FROM payments GROUP BY method;

-- median: the middle
-- clauses: median
SELECT channel, median(order_id) AS m FROM orders GROUP BY channel;

-- median_join: of a joined column
-- clauses: median, inner join
SELECT p.cat_id, median(l.price) AS m, count(*) AS n FROM order_lines l JOIN products p ON l.prod_id = p.prod_id GROUP BY p.cat_id;

-- mode: the most frequent, where only one is
-- clauses: mode
SELECT mode(channel) AS m FROM (SELECT channel FROM orders UNION ALL SELECT 'web' FROM orders);

-- collect_list: all values, in any order
-- clauses: collect_list
-- arrays: in any order
SELECT cust_id, collect_list(channel) AS channels FROM orders GROUP BY cust_id;

-- collect_set: different values, in any order
-- clauses: collect_set
-- arrays: in any order
SELECT cust_id, collect_set(status) AS statuses FROM orders GROUP BY cust_id;

-- collect_sorted: in order
-- clauses: collect_list, sort_array
SELECT cust_id, sort_array(collect_list(order_id)) AS ids FROM orders GROUP BY cust_id;

-- collect_joined: as one text
-- clauses: collect_set, sort_array, array_join
SELECT prod_id, array_join(sort_array(collect_set(reason)), ',') AS reasons FROM returns GROUP BY prod_id;

-- collect_structs: rows in order
-- clauses: collect_list, sort_array, struct
SELECT order_id, sort_array(collect_list(struct(line, prod_id))) AS lines FROM order_lines GROUP BY order_id;

-- collect_no_group: over everything
-- clauses: collect_set, aggregate without group, sort_array
SELECT sort_array(collect_set(page)) AS pages, size(collect_list(ms)) AS n FROM visits;

-- listagg: a text in an order
-- clauses: listagg
SELECT cust_id, listagg(CAST(order_id AS STRING), ',') WITHIN GROUP (ORDER BY order_id) AS ids FROM orders GROUP BY cust_id;

-- array_agg: with a filter
-- clauses: array_agg, filter
-- arrays: in any order
SELECT channel, array_agg(order_id) FILTER (WHERE status = 'paid') AS paid FROM orders GROUP BY channel;

-- max_by: the row of the largest
-- clauses: max_by
SELECT cust_id, max_by(order_id, placed) AS newest, max_by(status, placed) AS status FROM orders GROUP BY cust_id;

-- min_by: the row of the smallest
-- clauses: min_by
SELECT prod_id, min_by(order_id, struct(price, order_id, line)) AS cheapest FROM order_lines GROUP BY prod_id;

-- max_by_join: over a join
-- clauses: max_by, min_by, inner join
SELECT s.store, max_by(e.name, e.emp_id) AS newest, min_by(e.name, e.emp_id) AS oldest FROM stores s JOIN employees e USING (store_id) GROUP BY s.store;

-- bools: all and any
-- clauses: bool_and, bool_or
SELECT region_id, bool_and(vip) AS every, bool_or(vip) AS some, every(joined IS NOT NULL) AS dated, any(credit > 100) AS rich FROM customers GROUP BY region_id;

-- bools_empty: of nothing NULL
-- clauses: bool_and, bool_or, aggregate without group
SELECT bool_and(active) AS a, bool_or(active) AS o FROM products WHERE price > 80;

-- bits: of whole numbers
-- clauses: bit_and, bit_or, bit_xor
-- refused: AGGREGATE
SELECT channel, bit_and(order_id) AS a, bit_or(order_id) AS o, bit_xor(order_id) AS x FROM orders GROUP BY channel;

-- regression: a line through points
-- clauses: regr_slope, regr_intercept
SELECT prod_id, regr_slope(price, qty) AS slope, regr_intercept(price, qty) AS base, regr_count(price, qty) AS n FROM order_lines WHERE qty IS NOT NULL GROUP BY prod_id HAVING count(DISTINCT qty) > 1;

-- regression_quality: how well it fits
-- clauses: regr_r2, regr_avgx, regr_avgy, regr_sxx
SELECT regr_r2(price, qty) AS r2, regr_avgx(price, qty) AS x, regr_avgy(price, qty) AS y, regr_sxx(price, qty) AS sxx, regr_sxy(price, qty) AS sxy FROM order_lines;

-- corr: of two columns
-- clauses: corr
SELECT corr(price, qty) AS c, corr(line, order_id) AS d FROM order_lines;

-- covar: of samples and of all
-- clauses: covar_samp, covar_pop
SELECT prod_id, covar_samp(price, qty) AS s, covar_pop(price, qty) AS p FROM order_lines GROUP BY prod_id;

-- product_of_sums: expressions over aggregates
-- clauses: sum, group by
SELECT prod_id, sum(price * qty) / nullif(sum(qty), 0) AS mean, max(price) - min(price) AS spread, count(*) * 10 + sum(qty) AS mixed FROM order_lines GROUP BY prod_id;

-- try_sum: sums and averages that cannot fail
-- clauses: try_sum, try_avg
-- refused: AGGREGATE
SELECT prod_id, try_sum(qty) AS s, try_avg(price) AS a FROM order_lines GROUP BY prod_id;

-- approximate: of few values it is exact
-- clauses: approx_count_distinct
-- refused: APPROXIMATE
SELECT channel, approx_count_distinct(status) AS n FROM orders GROUP BY channel;

-- histogram: numbers in bins
-- clauses: group by, width_bucket
SELECT width_bucket(price, 0, 60, 6) AS bucket, count(*) AS n, min(price) AS least FROM order_lines GROUP BY width_bucket(price, 0, 60, 6);

-- many: one of each
-- clauses: count distinct, sum, avg, min, max, stddev, filter, aggregate without group
SELECT count(*) AS n, count(DISTINCT prod_id) AS d, sum(qty) AS s, avg(price) AS a, min(price) AS l, max(price) AS m, stddev(price) AS sd, count(*) FILTER (WHERE qty > 1) AS f FROM order_lines;
