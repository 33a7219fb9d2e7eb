-- and_table: AND with every combination
SELECT x.flag AS p, y.flag AS q, x.flag AND y.flag AS v FROM t x, t y;

-- or_table: OR with every combination
SELECT x.flag AS p, y.flag AS q, x.flag OR y.flag AS v FROM t x, t y;

-- not_table: NOT of each
SELECT flag, NOT flag AS v, NOT (flag AND flag IS NULL) AS w FROM t;

-- arithmetic: NULL in gives NULL out
SELECT a + NULL AS p, a * b AS q, a - a AS u FROM r;

-- comparisons: unknown where a side is NULL
SELECT a, b, a = b AS p, a <> b AS q, a <= b AS u, a IS NULL OR b IS NULL AS v FROM r;

-- null_safe_column: never unknown
SELECT a, b, a <=> b AS p, NOT (a <=> b) AS q FROM r;
-- duckdb:
SELECT a, b, a IS NOT DISTINCT FROM b AS p, a IS DISTINCT FROM b AS q FROM r;

-- in_list_column: IN with NULLs on both sides
SELECT a, a IN (1, 2) AS p, a IN (1, NULL) AS q, a NOT IN (1, NULL) AS u FROM r;

-- between_column: unknown unless one end decides
SELECT a, b, 2 BETWEEN a AND b AS p, a NOT BETWEEN 1 AND b AS q FROM r;

-- group_key: NULL keys are one group
SELECT a, s, count(*) AS n FROM r GROUP BY a, s;

-- join_key: NULL keys match nothing, in each kind of join
SELECT x.a, y.b FROM r x JOIN r y ON x.a = y.a AND x.b = y.b WHERE x.s IS NULL OR y.s IS NULL;

-- full_join_key: NULL keys on both sides stay apart
SELECT x.custkey AS p, y.custkey AS q FROM customer x FULL JOIN orders y ON x.custkey = y.custkey;

-- sums_of_nulls: aggregates of only NULLs
SELECT count(b) AS n, sum(b) AS s, avg(b) AS m, min(b) AS lo, max(b) AS hi FROM r WHERE b IS NULL;

-- groups_of_nulls: the same within groups
SELECT b, count(c) AS n, sum(c) AS s, avg(d) AS m, max(d) AS hi FROM s WHERE c IS NULL OR d IS NULL GROUP BY b;

-- distinct_nulls: NULL once
SELECT DISTINCT b, s FROM r WHERE b IS NULL OR s IS NULL;

-- set_operation_nulls: NULL rows are equal
SELECT a, b FROM r WHERE a IS NULL INTERSECT ALL SELECT b, c FROM s;

-- except_nulls: and taken away
SELECT a, b FROM r EXCEPT SELECT a, b FROM r WHERE a IS NULL;

-- anti_idiom: no partner, by an outer join
SELECT c.custkey, c.name FROM customer c LEFT JOIN orders o ON c.custkey = o.custkey WHERE o.orderkey IS NULL;

-- outer_then_group: NULLs made by a join are a group
SELECT s.c, count(*) AS n FROM r LEFT JOIN s ON r.b = s.b GROUP BY s.c;

-- outer_then_condition: a condition that is true of NULL
SELECT r.a, s.c FROM r LEFT JOIN s ON r.b = s.b WHERE coalesce(s.c, 0) < 5;

-- outer_then_join: keys made NULL by a join match nothing
SELECT r.a, s.c, t.a AS ta FROM r LEFT JOIN s ON r.b = s.b AND s.c = 1 LEFT JOIN t ON t.a = s.c;

-- having_nulls: an unknown condition drops the group
SELECT a, sum(b) AS s FROM r GROUP BY a HAVING NOT (sum(b) > 2);

-- case_nulls: an unknown condition goes to ELSE
SELECT a, b, CASE WHEN a = b THEN 'same' WHEN NOT (a = b) THEN 'other' ELSE 'unknown' END AS v FROM r;

-- filter_nulls: an unknown condition is not counted
SELECT count(*) FILTER (WHERE a = b) AS p, count(*) FILTER (WHERE NOT (a = b)) AS q, count(*) AS n FROM r;

-- least_of_nulls: NULL only if all are
SELECT greatest(a, NULL) AS p, least(a, b) AS q FROM r;

-- scalar_null: a subquery that gives NULL
SELECT a, a = (SELECT max(b) FROM s WHERE b > 100) AS p FROM r;
