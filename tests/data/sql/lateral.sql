-- subquery: for every row of what stands before
SELECT r.a, q.c FROM r, LATERAL (SELECT c FROM s WHERE s.b = r.b) q;

-- left: a row without partners stays
SELECT r.a, r.b, q.c FROM r LEFT JOIN LATERAL (SELECT c FROM s WHERE s.b = r.b) q ON true;

-- left_condition: with a condition on what is joined
SELECT r.a, r.b, q.c FROM r LEFT JOIN LATERAL (SELECT c FROM s WHERE s.b = r.b) q ON q.c > 5;
-- duckdb:
SELECT r.a, r.b, s.c FROM r LEFT JOIN s ON s.b = r.b AND s.c > 5;

-- aggregate: an aggregate has its row always
SELECT r.a, r.b, q.m, q.n FROM r, LATERAL (SELECT max(c) AS m, count(*) AS n FROM s WHERE s.b = r.b) q;

-- inner_condition: a condition on the aggregate
SELECT r.a, q.m FROM r JOIN LATERAL (SELECT max(c) AS m FROM s WHERE s.b = r.b) AS q(m) ON q.m > 1;
-- duckdb:
SELECT r.a, q.m FROM r, LATERAL (SELECT max(c) AS m FROM s WHERE s.b = r.b) q WHERE q.m > 1;

-- inequality: correlated by more than equality
SELECT r.a, q.n FROM r, LATERAL (SELECT count(*) AS n FROM s WHERE s.b < r.b) q;

-- distinct: different values for every row
SELECT r.a, q.c FROM r, LATERAL (SELECT DISTINCT c FROM s WHERE s.b = r.b) q;

-- grouped: groups for every row
SELECT r.a, q.c, q.n FROM r, LATERAL (SELECT c, count(*) AS n FROM s WHERE s.b = r.b GROUP BY c) q;

-- chained: names for parts of an expression
SELECT r.a, p.x, q.y FROM r, LATERAL (SELECT r.a + 1 AS x) p, LATERAL (SELECT p.x * 2 AS y) q;

-- then_grouped: groups of the whole
SELECT r.a, sum(q.c) AS total FROM r, LATERAL (SELECT c FROM s WHERE s.b = r.b AND s.c > r.a) q GROUP BY r.a;

-- then_joined: a join after it
SELECT r.a, q.m, t.x FROM r CROSS JOIN LATERAL (SELECT min(c) AS m FROM s WHERE s.b = r.b) q JOIN t ON t.a = r.a;

-- exploded: an array beside its row
SELECT n.id, e.tag FROM nested n, LATERAL explode(n.tags) AS e(tag);
-- duckdb:
SELECT id, tag FROM (SELECT id, unnest(tags) AS tag FROM nested) q;

-- exploded_left: a row stays whose array is empty or NULL
SELECT n.id, e.tag FROM nested n LEFT JOIN LATERAL explode(n.tags) AS e(tag) ON true;
-- duckdb:
SELECT id, tag FROM (SELECT id, unnest(CASE WHEN tags IS NULL OR len(tags) = 0 THEN [NULL] ELSE tags END) AS tag FROM nested) q;

-- comma: tables side by side, joined by a condition
SELECT r.a, s.c, t.x FROM r, s, t WHERE r.b = s.b AND r.a = t.a;

-- natural: joined by the columns of the same name
SELECT a, b, c, d FROM r NATURAL JOIN s;

-- natural_left: and the rows without partners
SELECT a, b, c, d FROM r NATURAL LEFT JOIN s;
