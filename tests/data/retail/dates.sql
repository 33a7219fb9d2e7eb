-- date_trunc: months, quarters, weeks
-- clauses: date_trunc
SELECT order_id, date_trunc('MONTH', day) AS m, date_trunc('QUARTER', placed) AS q, date_trunc('WEEK', placed) AS w, date_trunc('HOUR', placed) AS h FROM orders;

-- trunc: of dates
-- clauses: trunc
SELECT cust_id, trunc(joined, 'YEAR') AS y, trunc(joined, 'MM') AS m FROM customers;

-- group_by_hour: of the day
-- clauses: extract, group by
SELECT hour(at) AS h, count(*) AS n, count(DISTINCT cust_id) AS who FROM visits GROUP BY hour(at);

-- extract: parts
-- clauses: extract
SELECT order_id, extract(YEAR FROM day) AS y, extract(MONTH FROM day) AS m, extract(DOW FROM day) AS d, extract(HOUR FROM placed) AS h, extract(QUARTER FROM day) AS q FROM orders;

-- date_part: by name
-- clauses: date_part
SELECT pay_id, date_part('week', paid) AS w, date_part('doy', paid) AS d, date_part('minute', paid) AS m FROM payments;

-- date_format: as texts
-- clauses: date_format
SELECT order_id, date_format(day, 'yyyy-MM') AS ym, date_format(placed, 'dd.MM.yyyy HH:mm') AS t, date_format(day, 'EEE') AS w FROM orders;

-- format_group: grouped by a text of a date
-- clauses: date_format, group by
SELECT date_format(day, 'yyyy-MM') AS ym, count(*) AS n FROM orders GROUP BY date_format(day, 'yyyy-MM');

-- months_between: how long a customer is one
-- clauses: months_between
SELECT c.cust_id, o.order_id, months_between(o.day, c.joined) AS months FROM orders o JOIN customers c ON o.cust_id = c.cust_id;

-- add_months: later and earlier
-- clauses: add_months
SELECT cust_id, add_months(joined, 1) AS later, add_months(joined, -13) AS earlier FROM customers;

-- last_day: of the month
-- clauses: last_day
SELECT order_id, last_day(day) AS l, datediff(last_day(day), day) AS left FROM orders;

-- datediff: days between
-- clauses: datediff
SELECT r.order_id, datediff(r.day, o.day) AS days FROM returns r JOIN orders o ON r.order_id = o.order_id;

-- datediff_unit: in other units
-- clauses: datediff
SELECT promo_id, datediff(WEEK, starts, ends) AS weeks, timestampdiff(HOUR, starts, ends) AS hours FROM promotions;

-- date_arithmetic: with numbers and intervals
-- clauses: interval
SELECT order_id, day + 30 AS due, date_add(day, 7) AS week, date_sub(day, 1) AS before, day + INTERVAL 1 MONTH AS month, placed + INTERVAL '1 02:30' DAY TO MINUTE AS t FROM orders;

-- date_difference: the difference of two
-- clauses: interval
-- refused: NESTED
SELECT promo_id, ends - starts AS length, CAST(ends - starts AS INT) AS days FROM promotions;

-- unix_timestamp: seconds
-- clauses: unix_timestamp
SELECT pay_id, unix_timestamp(paid) AS s, unix_seconds(paid) AS u, unix_millis(paid) AS ms FROM payments;

-- from_unixtime: and back
-- clauses: from_unixtime
SELECT pay_id, from_unixtime(unix_timestamp(paid)) AS t, timestamp_seconds(unix_timestamp(paid)) AS ts, to_timestamp(CAST(paid AS STRING)) AS tt FROM payments;

-- to_date: from texts
-- clauses: to_date
SELECT order_id, to_date(placed) AS d, to_date(date_format(day, 'dd/MM/yyyy'), 'dd/MM/yyyy') AS e FROM orders;

-- make_date: from parts
-- clauses: make_date
SELECT order_id, make_date(year(day), month(day), 1) AS first, make_timestamp(year(day), 1, 1, 12, 30, 15) AS t FROM orders;

-- next_day: the Monday after
-- clauses: next_day
SELECT order_id, next_day(day, 'MONDAY') AS monday, dayname(day) AS d, monthname(day) AS m FROM orders;

-- weekday: by the day of the week
-- clauses: weekday, group by
SELECT weekday(day) AS w, dayofweek(day) AS d, count(*) AS n FROM orders GROUP BY weekday(day), dayofweek(day);

-- between_dates: a range
-- clauses: where, between
SELECT order_id FROM orders WHERE day BETWEEN DATE '2023-12-01' AND DATE '2023-12-31';

-- interval_condition: within days of each other
-- clauses: inner join, interval, non-equi join
SELECT o.order_id, p.pay_id FROM orders o JOIN payments p ON o.order_id = p.order_id AND p.paid <= o.placed + INTERVAL 1 DAY;

-- time_window: tumbling windows of time
-- clauses: window function of time, group by
-- refused: ParseError
SELECT window.start AS s, window.end AS e, count(*) AS n FROM visits GROUP BY window(at, '15 minutes');

-- fiscal: a year that starts in April
-- clauses: case, group by
SELECT CASE WHEN month(day) >= 4 THEN year(day) ELSE year(day) - 1 END AS fiscal, count(*) AS n FROM orders GROUP BY CASE WHEN month(day) >= 4 THEN year(day) ELSE year(day) - 1 END;
