-- cohorts: customers by the month of their first order, month by month
-- clauses: cte, group by, count distinct, cohorts
WITH first AS (SELECT cust_id, min(date_trunc('MONTH', day)) AS cohort FROM orders WHERE cust_id IS NOT NULL GROUP BY cust_id)
SELECT f.cohort, CAST(months_between(date_trunc('MONTH', o.day), f.cohort) AS INT) AS age, count(DISTINCT o.cust_id) AS customers
FROM orders o JOIN first f ON o.cust_id = f.cust_id GROUP BY f.cohort, CAST(months_between(date_trunc('MONTH', o.day), f.cohort) AS INT);

-- retention: the share of a cohort that came again
-- clauses: cte, group by, left join, retention
WITH first AS (SELECT cust_id, min(day) AS day FROM orders WHERE cust_id IS NOT NULL GROUP BY cust_id)
SELECT date_trunc('MONTH', f.day) AS cohort, count(DISTINCT f.cust_id) AS size, count(DISTINCT o.cust_id) AS again
FROM first f LEFT JOIN orders o ON o.cust_id = f.cust_id AND o.day > f.day + INTERVAL 30 DAYS GROUP BY date_trunc('MONTH', f.day);

-- funnel: how many get how far
-- clauses: count distinct, filter, aggregate without group, funnel
SELECT count(DISTINCT cust_id) FILTER (WHERE page = 'home') AS home, count(DISTINCT cust_id) FILTER (WHERE page = 'cart') AS cart, count(DISTINCT cust_id) FILTER (WHERE page = 'checkout') AS checkout, count(DISTINCT cust_id) FILTER (WHERE page = 'thanks') AS thanks FROM visits;

-- funnel_ordered: in the right order
-- clauses: group by, filter, funnel
SELECT count(cart) AS carts, count(CASE WHEN checkout > cart THEN 1 END) AS checkouts, count(CASE WHEN checkout > cart AND thanks > checkout THEN 1 END) AS orders FROM (
  SELECT cust_id, min(at) FILTER (WHERE page = 'cart') AS cart, max(at) FILTER (WHERE page = 'checkout') AS checkout, max(at) FILTER (WHERE page = 'thanks') AS thanks FROM visits WHERE cust_id IS NOT NULL GROUP BY cust_id
);

-- islands: days in a row with orders
-- clauses: row_number, group by, distinct, gaps and islands
SELECT min(day) AS from_day, max(day) AS to_day, count(*) AS days FROM (
  SELECT day, date_sub(day, row_number() OVER (ORDER BY day)) AS island FROM (SELECT DISTINCT day FROM orders)
) GROUP BY island;

-- gaps: orders that are missing between others
-- clauses: lead, gaps and islands
SELECT order_id + 1 AS first_missing, next - 1 AS last_missing FROM (SELECT order_id, lead(order_id) OVER (ORDER BY order_id) AS next FROM orders) WHERE next - order_id > 1;

-- islands_by_flag: runs of one channel
-- clauses: lag, running sum, group by, gaps and islands
SELECT run, min(order_id) AS first, max(order_id) AS last, min(channel) AS channel, count(*) AS n FROM (
  SELECT order_id, channel, sum(new) OVER (ORDER BY order_id) AS run FROM (
    SELECT order_id, channel, CASE WHEN channel <=> lag(channel) OVER (ORDER BY order_id) THEN 0 ELSE 1 END AS new FROM orders)
) GROUP BY run;

-- sessions: visits with pauses of less than half an hour
-- clauses: lag, running sum, group by, sessionization
SELECT cust_id, session, min(at) AS start, max(at) AS end, count(*) AS pages FROM (
  SELECT cust_id, at, sum(new) OVER (PARTITION BY cust_id ORDER BY at) AS session FROM (
    SELECT cust_id, at, CASE WHEN at <= lag(at) OVER (PARTITION BY cust_id ORDER BY at) + INTERVAL 30 MINUTES THEN 0 ELSE 1 END AS new FROM visits WHERE cust_id IS NOT NULL)
) GROUP BY cust_id, session;

-- session_window: the same by a function
-- clauses: session_window, group by, sessionization
SELECT cust_id, session_window.start AS start, count(*) AS pages FROM visits GROUP BY cust_id, session_window(at, '30 minutes');

-- session_stats: how long sessions are
-- clauses: lag, running sum, group by, sessionization, cte
WITH marked AS (SELECT cust_id, at, CASE WHEN lag(at) OVER (PARTITION BY cust_id ORDER BY at) >= at - INTERVAL 20 MINUTES THEN 0 ELSE 1 END AS new FROM visits),
  numbered AS (SELECT cust_id, at, sum(new) OVER (PARTITION BY cust_id ORDER BY at) AS s FROM marked),
  sessions AS (SELECT cust_id, s, unix_timestamp(max(at)) - unix_timestamp(min(at)) AS seconds FROM numbered GROUP BY cust_id, s)
SELECT cust_id, count(*) AS n, avg(seconds) AS mean, max(seconds) AS longest FROM sessions GROUP BY cust_id;

-- last_value_per_key: the newest status of each customer
-- clauses: row_number, last value per key
SELECT cust_id, order_id, status FROM (SELECT *, row_number() OVER (PARTITION BY cust_id ORDER BY placed DESC, order_id DESC) AS n FROM orders) WHERE n = 1;

-- last_value_max_by: the same by an aggregate
-- clauses: max_by, group by, last value per key
SELECT cust_id, max_by(status, struct(placed, order_id)) AS status, max(placed) AS placed FROM orders GROUP BY cust_id;

-- last_value_join: the same by a join with the maximum
-- clauses: inner join, group by, derived table, last value per key
SELECT o.cust_id, o.order_id, o.status FROM orders o JOIN (SELECT cust_id, max(order_id) AS last FROM orders GROUP BY cust_id) t ON o.cust_id = t.cust_id AND o.order_id = t.last;

-- dedup: each customer once by e-mail
-- clauses: row_number, deduplication
SELECT cust_id, email FROM (SELECT cust_id, email, row_number() OVER (PARTITION BY lower(email) ORDER BY cust_id) AS n FROM customers WHERE email IS NOT NULL) WHERE n = 1;

-- dedup_rows: repeated rows once, and how often
-- clauses: group by, having, deduplication
SELECT cust_id, at, page, ms, count(*) AS times FROM visits GROUP BY cust_id, at, page, ms HAVING count(*) > 1;

-- dedup_names: names that more than one customer has
-- clauses: window aggregate, deduplication
SELECT cust_id, name, n FROM (SELECT cust_id, name, count(*) OVER (PARTITION BY lower(name)) AS n FROM customers) WHERE n > 1;

-- churn: customers whose last order is old
-- clauses: group by, having, scalar subquery, churn
SELECT cust_id, max(day) AS last FROM orders WHERE cust_id IS NOT NULL GROUP BY cust_id HAVING max(day) < (SELECT max(day) FROM orders) - INTERVAL 30 DAYS;

-- churn_anti: customers of one month and not of the next
-- clauses: not exists, distinct, churn
SELECT DISTINCT o.cust_id, date_trunc('MONTH', o.day) AS month FROM orders o
WHERE NOT EXISTS (SELECT 1 FROM orders n WHERE n.cust_id = o.cust_id AND date_trunc('MONTH', n.day) = date_trunc('MONTH', add_months(o.day, 1)));

-- rfm: recency, frequency and money in parts
-- clauses: ntile, cte, group by, rfm
WITH t AS (SELECT o.cust_id, max(o.day) AS last, count(DISTINCT o.order_id) AS n, sum(l.price) AS spent FROM orders o JOIN order_lines l USING (order_id) WHERE o.cust_id IS NOT NULL GROUP BY o.cust_id)
SELECT cust_id, ntile(3) OVER (ORDER BY last DESC, cust_id) AS r, ntile(3) OVER (ORDER BY n DESC, cust_id) AS f, ntile(3) OVER (ORDER BY spent DESC, cust_id) AS m FROM t;

-- rfm_segments: how many are in each
-- clauses: ntile, group by, case, rfm
SELECT CASE WHEN f = 1 THEN 'loyal' WHEN f = 2 THEN 'some' ELSE 'rare' END AS segment, count(*) AS customers, sum(n) AS orders FROM (
  SELECT cust_id, n, ntile(3) OVER (ORDER BY n DESC, cust_id) AS f FROM (SELECT cust_id, count(*) AS n FROM orders WHERE cust_id IS NOT NULL GROUP BY cust_id)
) GROUP BY 1;

-- lifetime: what a customer has spent at each order
-- clauses: running sum, group by, inner join
SELECT cust_id, order_id, total, sum(total) OVER (PARTITION BY cust_id ORDER BY order_id) AS lifetime FROM (
  SELECT o.cust_id, o.order_id, sum(l.price) AS total FROM orders o JOIN order_lines l USING (order_id) GROUP BY o.cust_id, o.order_id
);

-- days_between: the pause between orders
-- clauses: lag, group by, avg
SELECT cust_id, avg(pause) AS mean, max(pause) AS longest, count(pause) AS n FROM (
  SELECT cust_id, datediff(day, lag(day) OVER (PARTITION BY cust_id ORDER BY placed, order_id)) AS pause FROM orders
) GROUP BY cust_id;

-- referrals: who brought whom, and what they spent
-- clauses: self join, left join, group by
SELECT a.cust_id, count(DISTINCT b.cust_id) AS brought, sum(p.amount) AS spent FROM customers a LEFT JOIN customers b ON b.referrer = a.cust_id LEFT JOIN orders o ON o.cust_id = b.cust_id LEFT JOIN payments p ON p.order_id = o.order_id GROUP BY a.cust_id;

-- new_and_returning: orders of each month by kind
-- clauses: row_number, case, group by
SELECT date_trunc('MONTH', day) AS month, count(CASE WHEN n = 1 THEN 1 END) AS new, count(CASE WHEN n > 1 THEN 1 END) AS returning FROM (
  SELECT day, row_number() OVER (PARTITION BY cust_id ORDER BY placed, order_id) AS n FROM orders WHERE cust_id IS NOT NULL
) GROUP BY date_trunc('MONTH', day);

-- dormant: customers who looked and never bought
-- clauses: exists, not exists
SELECT c.cust_id, c.name FROM customers c WHERE EXISTS (SELECT 1 FROM visits v WHERE v.cust_id = c.cust_id) AND NOT EXISTS (SELECT 1 FROM orders o WHERE o.cust_id = c.cust_id AND o.status = 'paid');

-- paths: the pages of each day in order
-- clauses: collect_list, sort_array, transform, group by
SELECT cust_id, CAST(at AS DATE) AS day, array_join(transform(sort_array(collect_list(struct(at, page))), x -> x.page), '>') AS path FROM visits WHERE cust_id IS NOT NULL GROUP BY cust_id, CAST(at AS DATE);

-- next_page: from which page to which
-- clauses: lead, group by
SELECT page, next, count(*) AS n FROM (SELECT page, lead(page) OVER (PARTITION BY cust_id ORDER BY at, page) AS next FROM visits) GROUP BY page, next;

-- time_to_order: from the first visit to the first order
-- clauses: group by, inner join, derived table
SELECT v.cust_id, datediff(o.first, v.first) AS days FROM (SELECT cust_id, min(CAST(at AS DATE)) AS first FROM visits GROUP BY cust_id) v JOIN (SELECT cust_id, min(day) AS first FROM orders GROUP BY cust_id) o ON v.cust_id = o.cust_id;

-- region_share: the part of a region's customers that are active
-- clauses: left join, exists, group by, avg
SELECT r.region, count(c.cust_id) AS customers, avg(CASE WHEN c.active THEN 1 ELSE 0 END) AS active FROM regions r LEFT JOIN (
  SELECT cust_id, region_id, EXISTS (SELECT 1 FROM orders o WHERE o.cust_id = customers.cust_id) AS active FROM customers
) c ON r.region_id = c.region_id GROUP BY r.region;
