-- upper_lower: case of letters
SELECT upper(s) AS u, lower(s) AS l FROM r;

-- length: number of characters
SELECT s, length(s) AS n, length(trim(s)) AS m FROM r;

-- trim: spaces around
SELECT trim(s) AS t, ltrim(s) AS l, rtrim(s) AS r FROM r;

-- substring: from a position, so many characters
SELECT substring(s, 2, 3) AS p, substr(s, 1, 1) AS q, substring(s, 3) AS t FROM r;

-- substring_from: the standard spelling
SELECT substring(s FROM 2 FOR 2) AS p FROM r;
-- duckdb:
SELECT substring(s, 2, 2) AS p FROM r;

-- substring_zero: position 0 counts as 1
SELECT substring(s, 0, 2) AS p FROM r;
-- duckdb:
SELECT substring(s, 1, 2) AS p FROM r;

-- substring_negative: a position from the end
SELECT substring(s, -2, 2) AS p, substring(s, -1) AS q FROM r WHERE length(s) >= 2;
-- duckdb:
SELECT right(s, 2) AS p, right(s, 1) AS q FROM r WHERE length(s) >= 2;

-- left_right: either end
SELECT left(s, 2) AS l, right(s, 2) AS r FROM r;

-- concat: NULL makes all NULL
SELECT concat(s, '-', s) AS p, concat('<', s, '>') AS q FROM r;
-- duckdb:
SELECT s || '-' || s AS p, '<' || s || '>' AS q FROM r;

-- concat_operator: the same as an operator
SELECT s || '!' AS p, 'a' || 'b' || s AS q FROM r;

-- replace: every occurrence
SELECT replace(s, 'a', 'oo') AS p, replace(s, 'x', '') AS q FROM r;

-- instr: where a text occurs, 0 if it does not
SELECT s, instr(s, 'a') AS p, instr(s, 'pp') AS q FROM r;

-- repeat_reverse: texts repeated and turned round
SELECT repeat(s, 2) AS p, reverse(s) AS q FROM r;

-- startswith: tests on texts
SELECT s, startswith(s, 'a') AS p, endswith(s, 'x') AS q, contains(s, 'p') AS c FROM r;
-- duckdb:
SELECT s, starts_with(s, 'a') AS p, ends_with(s, 'x') AS q, contains(s, 'p') AS c FROM r;

-- abs: without sign
SELECT abs(x) AS p, abs(-1) AS q FROM t;

-- abs_decimal: of integers and decimals
SELECT abs(d) AS p, abs(b - c) AS q FROM s;

-- sign: -1, 0 or 1
SELECT sign(x) AS p, sign(a - 2) AS q FROM t;

-- round_double: half goes away from zero
SELECT x, round(x) AS p, round(x, 1) AS q FROM t;

-- round_decimal: decimals keep their kind
SELECT price, round(price, 1) AS p, round(price) AS q FROM orders;

-- round_integer: tens
SELECT c, round(c, -1) AS p FROM s;

-- floor_ceil: down and up
SELECT x, floor(x) AS p, ceil(x) AS q, ceiling(x) AS u FROM t;

-- floor_ceil_decimal: of decimals
SELECT d, floor(d) AS p, ceil(d) AS q FROM s;

-- greatest_least: NULLs are skipped
SELECT greatest(a, b) AS p, least(a, b) AS q, greatest(a, b, 2) AS u FROM r;

-- greatest_mixed: of different number types
SELECT greatest(d, c) AS p, least(c, d, 0.5) AS q FROM s;

-- greatest_dates: of days and texts
SELECT greatest(day, DATE '2024-02-01') AS p, least(status, 'G') AS q FROM orders;

-- sqrt_power: roots and powers are doubles
SELECT sqrt(abs(x)) AS p, power(a, 2) AS q, pow(2, a) AS u FROM t;

-- date_parts: year, month and day
SELECT day, year(day) AS y, month(day) AS m, day(day) AS d, quarter(day) AS q FROM t;

-- dayofmonth: other names for parts
SELECT dayofmonth(day) AS d, dayofyear(day) AS y, weekofyear(day) AS w FROM t;

-- dayofweek: Sunday is 1
SELECT day, dayofweek(day) AS d FROM t;
-- duckdb:
SELECT day, dayofweek(day) + 1 AS d FROM t;

-- extract: the standard spelling of parts
SELECT extract(YEAR FROM day) AS y, extract(MONTH FROM day) AS m FROM orders;

-- date_add: days later and earlier
SELECT day, date_add(day, 1) AS p, date_sub(day, 31) AS q, date_add(day, -1) AS u FROM t;
-- duckdb:
SELECT day, day + 1 AS p, day - 31 AS q, day - 1 AS u FROM t;

-- datediff: days from the second to the first
SELECT datediff(day, DATE '2024-01-01') AS p, datediff(DATE '2024-03-01', day) AS q FROM t;
-- duckdb:
SELECT date_diff('day', DATE '2024-01-01', day) AS p, date_diff('day', day, DATE '2024-03-01') AS q FROM t;

-- add_months: the last day where the month is short
SELECT day, add_months(day, 1) AS p, add_months(day, -12) AS q FROM t;
-- duckdb:
SELECT day, CAST(day + INTERVAL 1 MONTH AS DATE) AS p, CAST(day - INTERVAL 12 MONTH AS DATE) AS q FROM t;

-- last_day: the end of the month
SELECT day, last_day(day) AS p FROM t;

-- trunc: the start of the month and the year
SELECT day, trunc(day, 'MM') AS p, trunc(day, 'YEAR') AS q FROM t;
-- duckdb:
SELECT day, CAST(date_trunc('month', day) AS DATE) AS p, CAST(date_trunc('year', day) AS DATE) AS q FROM t;

-- cast_text: numbers, days and truth values as texts
SELECT CAST(a AS STRING) AS p, CAST(x AS STRING) AS q, CAST(day AS STRING) AS u, CAST(flag AS STRING) AS v FROM t;
-- duckdb:
SELECT CAST(a AS VARCHAR) AS p, CAST(x AS VARCHAR) AS q, CAST(day AS VARCHAR) AS u, CAST(flag AS VARCHAR) AS v FROM t;

-- cast_decimal_text: decimals keep their scale
SELECT CAST(d AS STRING) AS p FROM s;
-- duckdb:
SELECT CAST(d AS VARCHAR) AS p FROM s;

-- cast_integer: doubles and decimals are cut off
SELECT CAST(x AS BIGINT) AS p, CAST(x AS INT) AS q FROM t;
-- duckdb:
SELECT CAST(trunc(x) AS BIGINT) AS p, CAST(trunc(x) AS INT) AS q FROM t;

-- cast_decimal_integer: toward zero
SELECT CAST(d AS BIGINT) AS p FROM s;
-- duckdb:
SELECT CAST(trunc(d) AS BIGINT) AS p FROM s;

-- cast_decimal: to fewer digits, rounded
SELECT CAST(x AS DECIMAL(10,1)) AS p, CAST(a AS DECIMAL(10,2)) AS q FROM t;

-- cast_double: integers and decimals as doubles
SELECT CAST(b AS DOUBLE) / 4 AS p, CAST(d AS DOUBLE) * 2 AS q FROM s;

-- cast_from_text: texts as numbers and days
SELECT CAST('12' AS BIGINT) + a AS p, CAST('1.25' AS DECIMAL(8,2)) AS q, CAST('2024-02-29' AS DATE) AS u FROM r;

-- cast_boolean: truth values as integers
SELECT CAST(flag AS INT) AS p, CAST(a AS BOOLEAN) AS q FROM t;

-- cast_operator: the short form
SELECT a::STRING AS p, d::DOUBLE AS q FROM r JOIN s ON r.b = s.b;
-- duckdb:
SELECT a::VARCHAR AS p, d::DOUBLE AS q FROM r JOIN s ON r.b = s.b;

-- decimal_sum: sums and differences of decimals
SELECT d + d AS p, d - 0.125 AS q, d + c AS u FROM s;

-- decimal_product: products of decimals
SELECT d * d AS p, d * 0.1 AS q, price * (1 - 0.05) AS u FROM s JOIN orders ON s.b = orders.custkey;

-- decimal_quotient: quotients of decimals
SELECT price / 3 AS p, price / 7.0 AS q FROM orders;

-- decimal_remainder: remainders of decimals
SELECT d % 1 AS p, d % 0.7 AS q FROM s;

-- decimal_sums: aggregates of decimal expressions
SELECT sum(price * 0.1) AS p, sum(price * price) AS q, avg(price * 2) AS m, sum(price) / count(*) AS u FROM orders;

-- composed: functions of functions
SELECT upper(substring(trim(s), 1, 2)) AS p, length(replace(lower(s), 'a', '')) AS q FROM r;

-- in_where: functions in conditions
SELECT s FROM r WHERE length(trim(s)) > 1 AND upper(s) LIKE 'A%';

-- in_join: functions in a join condition
SELECT o.orderkey, t.a FROM orders o JOIN t ON year(o.day) = year(t.day) AND month(o.day) = month(t.day);
