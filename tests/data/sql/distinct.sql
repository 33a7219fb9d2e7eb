-- one: distinct values, NULL among them
SELECT DISTINCT a FROM r;

-- two: distinct pairs
SELECT DISTINCT a, b FROM r;

-- star: distinct rows
SELECT DISTINCT * FROM orders;

-- expression: distinct values of expressions
SELECT DISTINCT a % 2 AS p, b IS NULL AS q FROM r;

-- constant: one row if there is any
SELECT DISTINCT 1 AS one FROM r;

-- after_join: distinct rows of a join
SELECT DISTINCT r.a, s.c FROM r JOIN s ON r.b = s.b;

-- after_left_join: distinct rows of an outer join
SELECT DISTINCT r.b, s.c FROM r LEFT JOIN s ON r.b = s.b;

-- of_groups: distinct sizes of groups
SELECT DISTINCT count(*) AS n FROM r GROUP BY a;

-- inside: a distinct subquery that is counted
SELECT count(*) AS n, sum(a) AS s FROM (SELECT DISTINCT a, b FROM r) d;

-- joined: a distinct subquery that is joined
SELECT d.b, s.c FROM (SELECT DISTINCT b FROM r) d JOIN s ON d.b = s.b;

-- of_distinct: distinct over distinct
SELECT DISTINCT a FROM (SELECT DISTINCT a, b FROM r) d;

-- of_union: distinct rows of a union
SELECT DISTINCT k FROM (SELECT a AS k FROM r UNION ALL SELECT b FROM s) u;

-- doubles_and_dates: distinct rows of other types
SELECT DISTINCT x, day, flag FROM t;

-- with_where: the condition goes first
SELECT DISTINCT b FROM r WHERE a IS NULL OR a > 1;
