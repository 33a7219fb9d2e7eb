-- count: rows of each group, NULL is a group
SELECT a, count(*) AS n FROM r GROUP BY a;

-- count_column: NULLs are not counted
SELECT a, count(b) AS n, count(s) AS m, count(1) AS k FROM r GROUP BY a;

-- sum: sums ignore NULL, and are NULL where nothing is left
SELECT a, sum(b) AS total FROM r GROUP BY a;

-- all_aggregates: every aggregate of a column
SELECT b, sum(c) AS s, count(c) AS n, avg(c) AS m, min(c) AS lo, max(c) AS hi FROM s GROUP BY b;

-- decimals: sums and extremes of decimals are exact
SELECT b, sum(d) AS total, min(d) AS lo, max(d) AS hi FROM s GROUP BY b;

-- decimal_average: the average of decimals
SELECT custkey, avg(price) AS mean FROM orders GROUP BY custkey;

-- doubles: aggregates of doubles
SELECT a, sum(x) AS s, avg(x) AS m, min(x) AS lo, max(x) AS hi FROM t GROUP BY a;

-- texts_and_dates: extremes of texts, days and booleans
SELECT a, min(day) AS first, max(day) AS last, min(flag) AS every, max(flag) AS some FROM t GROUP BY a;

-- text_extremes: the first and last text
SELECT b, min(s) AS lo, max(s) AS hi FROM r GROUP BY b;

-- two_keys: groups by two columns
SELECT a, b, count(*) AS n FROM r GROUP BY a, b;

-- key_not_selected: a grouped query that does not show its key
SELECT count(*) AS n FROM r GROUP BY a;

-- only_keys: groups without an aggregate are the distinct keys
SELECT a, b FROM r GROUP BY a, b;

-- expression: groups by an expression
SELECT a % 2 AS parity, count(*) AS n FROM r GROUP BY a % 2;

-- expression_inside: an expression over a grouped expression
SELECT (a + b) * 2 AS twice, sum(a) AS total FROM r GROUP BY a + b;

-- key_expression: an expression over a grouped column
SELECT a + 1 AS next, count(*) AS n FROM r GROUP BY a;

-- ordinal: groups by position
SELECT b, a, count(*) AS n FROM r GROUP BY 2, 1;

-- ordinal_expression: groups by the position of an expression
SELECT upper(s) AS u, count(*) AS n FROM r GROUP BY 1;

-- alias: groups by an alias
SELECT a * 10 AS tens, sum(b) AS total FROM r GROUP BY tens;

-- case_key: groups by a choice
SELECT CASE WHEN c >= 10 THEN 'big' WHEN c IS NULL THEN 'none' ELSE 'small' END AS size, count(*) AS n
FROM s GROUP BY CASE WHEN c >= 10 THEN 'big' WHEN c IS NULL THEN 'none' ELSE 'small' END;

-- group_by_all: groups by what is not aggregated
SELECT a, b, max(s) AS m FROM r GROUP BY ALL;

-- date_key: groups by parts of a day
SELECT year(day) AS y, month(day) AS m, sum(price) AS total FROM orders GROUP BY year(day), month(day);

-- boolean_key: groups by a condition
SELECT price > 50 AS dear, count(*) AS n FROM orders GROUP BY price > 50;

-- argument_expression: aggregates of expressions
SELECT a, sum(a * b + 1) AS p, max(b - a) AS q, avg(b * 2) AS m FROM r GROUP BY a;

-- result_expression: expressions of aggregates
SELECT a, sum(b) + count(*) * 2 AS p, max(b) - min(b) AS q, coalesce(sum(b), 0) AS z FROM r GROUP BY a;

-- ratio: the average by hand
SELECT b, sum(c) / nullif(count(c), 0) AS mean FROM s GROUP BY b;

-- key_and_aggregate: the key and an aggregate in one expression
SELECT a * 100 + count(*) AS code FROM r GROUP BY a;

-- count_distinct: distinct values of a column
SELECT a, count(DISTINCT b) AS n FROM r GROUP BY a;

-- sum_distinct: each value once
SELECT b, sum(DISTINCT c) AS s, avg(DISTINCT c) AS m FROM s GROUP BY b;

-- min_distinct: DISTINCT changes nothing for extremes
SELECT b, min(DISTINCT c) AS lo, max(DISTINCT c) AS hi FROM s GROUP BY b;

-- distinct_and_not: both forms side by side
SELECT b, count(c) AS n, count(DISTINCT c) AS k, sum(c) AS s, sum(DISTINCT c) AS t FROM s GROUP BY b;

-- count_distinct_two: distinct pairs without a NULL
SELECT count(DISTINCT a, b) AS n FROM r;
-- duckdb:
SELECT count(DISTINCT (a, b)) FILTER (WHERE a IS NOT NULL AND b IS NOT NULL) AS n FROM r;

-- count_distinct_several: two distinct counts of different columns
SELECT count(DISTINCT a) AS n, count(DISTINCT b) AS m, count(DISTINCT s) AS k FROM r;

-- count_distinct_expression: distinct values of an expression
SELECT b, count(DISTINCT c % 3) AS n FROM s GROUP BY b;

-- count_if_distinct: true is counted once
SELECT a, count_if(DISTINCT b = 1) AS n, count_if(b = 1) AS m FROM r GROUP BY a;
-- duckdb:
SELECT a, count(DISTINCT b) FILTER (WHERE b = 1) AS n, count(*) FILTER (WHERE b = 1) AS m FROM r GROUP BY a;

-- filter: aggregates of part of a group
SELECT a, count(*) FILTER (WHERE b = 1) AS ones, sum(b) FILTER (WHERE b > 1) AS rest, count(*) AS n
FROM r GROUP BY a;

-- filter_distinct: both at once
SELECT b, count(DISTINCT c) FILTER (WHERE c > 5) AS n FROM s GROUP BY b;

-- filter_extremes: extremes of part of a group
SELECT custkey, min(price) FILTER (WHERE status = 'O') AS lo, avg(price) FILTER (WHERE price > 0) AS m
FROM orders GROUP BY custkey;

-- sum_of_case: a choice inside an aggregate
SELECT a, sum(CASE WHEN b = 1 THEN 1 ELSE 0 END) AS ones, count(CASE WHEN b > 1 THEN 1 END) AS more
FROM r GROUP BY a;

-- case_of_aggregate: a choice by an aggregate
SELECT a, CASE WHEN count(*) > 2 THEN 'many' WHEN sum(b) IS NULL THEN 'none' ELSE 'few' END AS size
FROM r GROUP BY a;

-- global: aggregates of all rows
SELECT count(*) AS n, sum(a) AS s, min(b) AS lo, max(b) AS hi, avg(a) AS m FROM r;

-- global_of_empty: one row, also of nothing
SELECT count(*) AS n, count(a) AS k, sum(a) AS s, min(b) AS lo, avg(b) AS m FROM empty;

-- global_after_false: one row, also when no row is left
SELECT count(*) AS n, sum(d) AS s, max(c) AS hi FROM s WHERE 1 = 0;

-- grouped_of_empty: no rows have no groups
SELECT a, count(*) AS n FROM empty GROUP BY a;

-- global_with_constant: a constant beside a global aggregate
SELECT 'total' AS what, sum(price) AS total, count(*) + 1 AS n FROM orders;

-- global_distinct: distinct aggregates of all rows
SELECT count(DISTINCT c) AS n, sum(DISTINCT d) AS s, avg(DISTINCT c) AS m FROM s;

-- over_join: groups of a join
SELECT c.name, sum(o.price) AS total, count(*) AS n
FROM customer c JOIN orders o ON c.custkey = o.custkey GROUP BY c.name;

-- over_left_join: groups without partners count zero
SELECT r.a, count(*) AS n, count(s.c) AS k, sum(s.c) AS total FROM r LEFT JOIN s ON r.b = s.b GROUP BY r.a;

-- product_over_join: a sum of products of both sides
SELECT r.a, sum(r.b * s.c) AS dot, sum(r.a + s.d) AS mix FROM r JOIN s ON r.b = s.b GROUP BY r.a;

-- global_over_cross: a global aggregate of all pairs
SELECT count(*) AS n, sum(r.a * t.x) AS s FROM r CROSS JOIN t;

-- of_groups: groups of groups
SELECT n, count(*) AS groups FROM (SELECT a, count(*) AS n FROM r GROUP BY a) g GROUP BY n;

-- max_of_sums: an aggregate of an aggregate
SELECT max(total) AS hi, avg(n) AS m FROM (SELECT b, sum(c) AS total, count(*) AS n FROM s GROUP BY b) g;
