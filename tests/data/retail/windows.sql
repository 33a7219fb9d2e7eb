-- row_number: orders of a customer in order
-- clauses: row_number
SELECT cust_id, order_id, row_number() OVER (PARTITION BY cust_id ORDER BY order_id) AS n FROM orders;

-- row_number_global: over all rows
-- clauses: row_number, window without partition
SELECT pay_id, row_number() OVER (ORDER BY amount DESC, pay_id) AS n FROM payments;

-- rank: ties have one rank
-- clauses: rank
SELECT emp_id, salary, rank() OVER (ORDER BY salary DESC) AS r FROM employees;

-- dense_rank: without gaps
-- clauses: dense_rank
SELECT store_id, prod_id, moved, dense_rank() OVER (PARTITION BY store_id ORDER BY moved) AS r FROM stock;

-- ranks_together: three of them over one window
-- clauses: rank, dense_rank, row_number
SELECT order_id, line, rank() OVER w AS r, dense_rank() OVER w AS d FROM order_lines WINDOW w AS (PARTITION BY prod_id ORDER BY qty DESC NULLS LAST);

-- percent_rank: the rank as a fraction
-- clauses: percent_rank
SELECT prod_id, price, percent_rank() OVER (ORDER BY price) AS p FROM products;

-- cume_dist: the fraction that is not larger
-- clauses: cume_dist
SELECT emp_id, cume_dist() OVER (ORDER BY salary NULLS FIRST) AS c FROM employees;

-- ntile: four parts
-- clauses: ntile
SELECT cust_id, order_id, ntile(4) OVER (ORDER BY placed, order_id) AS quarter FROM orders;

-- ntile_partition: in each part
-- clauses: ntile
SELECT prod_id, order_id, line, ntile(2) OVER (PARTITION BY prod_id ORDER BY price, order_id, line) AS half FROM order_lines;

-- lag: the order before
-- clauses: lag
SELECT cust_id, order_id, day, lag(day) OVER (PARTITION BY cust_id ORDER BY placed, order_id) AS before FROM orders;

-- lag_two: two before, with a value where there is none
-- clauses: lag
SELECT order_id, lag(status, 2, 'none') OVER (ORDER BY order_id) AS two_ago FROM orders;

-- lead: the order after
-- clauses: lead
SELECT cust_id, order_id, lead(order_id) OVER (PARTITION BY cust_id ORDER BY order_id) AS next, lead(day, 1, DATE '2030-01-01') OVER (PARTITION BY cust_id ORDER BY order_id) AS until FROM orders;

-- lag_ignore_nulls: the last status that is known
-- clauses: lag, ignore nulls
SELECT order_id, status, lag(status) IGNORE NULLS OVER (ORDER BY order_id) AS known FROM orders;

-- first_value: the first of a customer
-- clauses: first_value
SELECT cust_id, order_id, first_value(order_id) OVER (PARTITION BY cust_id ORDER BY placed, order_id) AS first FROM orders;

-- last_value: the last of a customer, with a frame to the end
-- clauses: last_value, rows frame
SELECT cust_id, order_id, last_value(status) OVER (PARTITION BY cust_id ORDER BY order_id ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) AS last FROM orders;

-- last_value_ignore: the last that is known, so far
-- clauses: last_value, ignore nulls
SELECT order_id, last_value(store_id) IGNORE NULLS OVER (ORDER BY order_id) AS store FROM orders;

-- nth_value: the second so far
-- clauses: nth_value
SELECT cust_id, order_id, nth_value(order_id, 2) OVER (PARTITION BY cust_id ORDER BY order_id) AS second FROM orders;

-- running_sum: what came in so far
-- clauses: running sum
SELECT pay_id, amount, sum(amount) OVER (ORDER BY pay_id) AS total FROM payments;

-- running_sum_partition: by method
-- clauses: running sum
SELECT method, pay_id, sum(amount) OVER (PARTITION BY method ORDER BY pay_id) AS total FROM payments;

-- running_ties: rows that are equal in order have one value
-- clauses: running sum, range frame
SELECT store_id, day, moved, sum(moved) OVER (PARTITION BY store_id ORDER BY day) AS level FROM stock;

-- running_rows: by rows and not by values
-- clauses: running sum, rows frame
SELECT order_id, line, sum(qty) OVER (PARTITION BY order_id ORDER BY line ROWS UNBOUNDED PRECEDING) AS q FROM order_lines;

-- running_avg: the average so far
-- clauses: running avg
SELECT pay_id, avg(amount) OVER (PARTITION BY method ORDER BY pay_id) AS a FROM payments;

-- running_count: how many so far
-- clauses: running count
SELECT cust_id, order_id, count(*) OVER (PARTITION BY cust_id ORDER BY order_id) AS n, count(status) OVER (PARTITION BY cust_id ORDER BY order_id) AS known FROM orders;

-- running_extremes: smallest and largest so far
-- clauses: running min, running max
SELECT order_id, line, min(price) OVER (PARTITION BY prod_id ORDER BY order_id, line) AS least, max(price) OVER (PARTITION BY prod_id ORDER BY order_id, line) AS most FROM order_lines;

-- whole_partition: with the total of the group
-- clauses: window aggregate
SELECT order_id, line, qty, sum(qty) OVER (PARTITION BY order_id) AS total, count(*) OVER (PARTITION BY order_id) AS n FROM order_lines;

-- whole_table: with the total of all
-- clauses: window aggregate, window without partition
SELECT pay_id, amount, sum(amount) OVER () AS total, max(amount) OVER () AS most FROM payments;

-- share: of the group
-- clauses: window aggregate
SELECT pay_id, method, round(100 * amount / sum(amount) OVER (PARTITION BY method), 2) AS share FROM payments WHERE amount > 0;

-- moving_average: of three rows
-- clauses: rows frame, moving average
SELECT order_id, line, avg(price) OVER (PARTITION BY prod_id ORDER BY order_id, line ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) AS a FROM order_lines;

-- centered: of the row before, this and the next
-- clauses: rows frame
SELECT pay_id, sum(amount) OVER (ORDER BY pay_id ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING) AS s, count(fee) OVER (ORDER BY pay_id ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING) AS n FROM payments;

-- rows_after: what is to come
-- clauses: rows frame
SELECT pay_id, sum(amount) OVER (ORDER BY pay_id ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING) AS rest FROM payments;

-- rows_before: a frame that ends before the row
-- clauses: rows frame
SELECT order_id, max(order_id) OVER (PARTITION BY store_id ORDER BY order_id ROWS BETWEEN 3 PRECEDING AND 1 PRECEDING) AS m FROM orders;

-- range_numbers: by distance of values
-- clauses: range frame
SELECT order_id, count(*) OVER (ORDER BY order_id RANGE BETWEEN 3 PRECEDING AND 3 FOLLOWING) AS near FROM orders;

-- range_days: the last thirty days
-- clauses: range frame, interval frame
SELECT order_id, day, count(*) OVER (ORDER BY day RANGE BETWEEN INTERVAL 30 DAYS PRECEDING AND CURRENT ROW) AS month FROM orders;

-- range_days_partition: of each channel
-- clauses: range frame, interval frame
SELECT channel, order_id, min(order_id) OVER (PARTITION BY channel ORDER BY day RANGE BETWEEN INTERVAL 10 DAYS PRECEDING AND INTERVAL 10 DAYS FOLLOWING) AS least FROM orders;

-- range_times: visits of the last half hour
-- clauses: range frame, interval frame
SELECT cust_id, at, count(*) OVER (PARTITION BY cust_id ORDER BY at RANGE BETWEEN INTERVAL 30 MINUTES PRECEDING AND CURRENT ROW) AS n FROM visits;

-- range_descending: downwards
-- clauses: range frame
SELECT prod_id, price, count(*) OVER (ORDER BY price DESC RANGE BETWEEN 10 PRECEDING AND CURRENT ROW) AS n FROM products;

-- range_nulls: NULL is its own neighbour
-- clauses: range frame, null keys
SELECT order_id, line, qty, sum(qty) OVER (ORDER BY qty RANGE BETWEEN 1 PRECEDING AND 1 FOLLOWING) AS s FROM order_lines;

-- range_unbounded: from this value on
-- clauses: range frame
SELECT store_id, prod_id, day, sum(moved) OVER (PARTITION BY prod_id ORDER BY day RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING) AS later FROM stock;

-- window_over_group: the rank of groups
-- clauses: rank, group by
SELECT prod_id, sum(qty) AS sold, rank() OVER (ORDER BY sum(qty) DESC) AS r FROM order_lines GROUP BY prod_id;

-- window_over_join: a running total over a join
-- clauses: running sum, inner join
SELECT o.cust_id, o.order_id, l.line, sum(l.price * l.qty) OVER (PARTITION BY o.cust_id ORDER BY o.order_id, l.line) AS spent FROM orders o JOIN order_lines l USING (order_id);

-- window_over_left: over a padded column
-- clauses: row_number, left join
SELECT c.cust_id, o.order_id, row_number() OVER (PARTITION BY c.cust_id ORDER BY o.order_id DESC) AS n FROM customers c LEFT JOIN orders o ON c.cust_id = o.cust_id;

-- group_over_window: groups of a windowed column
-- clauses: lag, group by
SELECT gap, count(*) AS n FROM (
  SELECT datediff(day, lag(day) OVER (PARTITION BY cust_id ORDER BY placed, order_id)) AS gap FROM orders
) GROUP BY gap;

-- window_over_window: one after the other
-- clauses: lag, running sum
SELECT cust_id, order_id, sum(new) OVER (PARTITION BY cust_id ORDER BY order_id) AS streak FROM (
  SELECT cust_id, order_id, CASE WHEN lag(channel) OVER (PARTITION BY cust_id ORDER BY order_id) = channel THEN 0 ELSE 1 END AS new FROM orders
);

-- joined_window: joined with a ranked table
-- clauses: row_number, inner join
SELECT c.name, t.order_id FROM customers c JOIN (
  SELECT cust_id, order_id, row_number() OVER (PARTITION BY cust_id ORDER BY order_id DESC) AS n FROM orders
) t ON c.cust_id = t.cust_id AND t.n = 1;

-- collect_window: a list of what came so far
-- clauses: collect_list, rows frame
-- refused: WINDOW_FUNCTION
SELECT cust_id, order_id, array_join(collect_list(channel) OVER (PARTITION BY cust_id ORDER BY order_id ROWS BETWEEN 2 PRECEDING AND CURRENT ROW), '>') AS path FROM orders;

-- stddev_window: a deviation over a group
-- clauses: window aggregate, stddev
SELECT order_id, line, price - avg(price) OVER (PARTITION BY prod_id) AS off, stddev_pop(price) OVER (PARTITION BY prod_id) AS s FROM order_lines;

-- filter_window: a condition on what is added
-- clauses: window aggregate, filter
SELECT order_id, count(*) FILTER (WHERE status = 'paid') OVER (PARTITION BY channel) AS paid FROM orders;

-- expression_partition: by an expression
-- clauses: row_number
SELECT order_id, row_number() OVER (PARTITION BY year(day), month(day) ORDER BY order_id) AS n FROM orders;

-- odd_order: NaN last, then descending
-- clauses: rank, odd doubles
SELECT page, score, rank() OVER (ORDER BY score DESC NULLS LAST) AS r, dense_rank() OVER (ORDER BY score) AS d FROM visits;

-- odd_partition: partitions of NaN and of zero
-- clauses: window aggregate, odd doubles
SELECT cust_id, credit, count(*) OVER (PARTITION BY credit) AS same FROM customers;

-- odd_running: a sum that meets NaN
-- clauses: running sum, odd doubles
SELECT cust_id, sum(credit) OVER (ORDER BY cust_id) AS s, sum(credit) OVER (ORDER BY cust_id ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS two FROM customers;

-- two_windows: of different partitions
-- clauses: row_number, window aggregate
SELECT order_id, row_number() OVER (PARTITION BY cust_id ORDER BY order_id) AS of_customer, count(*) OVER (PARTITION BY store_id) AS in_store FROM orders;
