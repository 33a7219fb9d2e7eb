-- exists: rows with a partner
SELECT a, b FROM r WHERE EXISTS (SELECT 1 FROM s WHERE s.b = r.b);

-- exists_star: what the subquery selects does not matter
SELECT a, b FROM r WHERE EXISTS (SELECT * FROM s WHERE s.b = r.b AND s.c > 10);

-- not_exists: rows without a partner, also those with NULL keys
SELECT a, b FROM r WHERE NOT EXISTS (SELECT 1 FROM s WHERE s.b = r.b);

-- exists_uncorrelated: all rows or none
SELECT a FROM r WHERE EXISTS (SELECT 1 FROM s WHERE c > 25);

-- exists_empty: nothing exists in nothing
SELECT a FROM r WHERE EXISTS (SELECT 1 FROM empty);

-- not_exists_empty: all rows
SELECT a FROM r WHERE NOT EXISTS (SELECT 1 FROM empty WHERE empty.a = r.a);

-- exists_order: a correlation that is not an equality
SELECT a, b FROM r WHERE EXISTS (SELECT 1 FROM s WHERE s.c < r.a);

-- not_exists_order: the rows of which none is greater
SELECT o.a, o.x FROM t o WHERE o.x IS NOT NULL AND NOT EXISTS (SELECT 1 FROM t i WHERE i.x > o.x);

-- exists_self: rows with another row of the same key
SELECT x.orderkey, x.price FROM orders x
WHERE EXISTS (SELECT 1 FROM orders y WHERE y.custkey = x.custkey AND y.orderkey <> x.orderkey);

-- exists_and: two existence tests
SELECT a, b FROM r
WHERE EXISTS (SELECT 1 FROM s WHERE s.b = r.b) AND NOT EXISTS (SELECT 1 FROM t WHERE t.a = r.a AND t.flag);

-- exists_or: an existence test inside OR
SELECT a, b FROM r WHERE a IS NULL OR EXISTS (SELECT 1 FROM t WHERE t.a = r.a AND t.x > 0);

-- exists_or_exists: one of two
SELECT a, b FROM r
WHERE EXISTS (SELECT 1 FROM t WHERE t.a = r.b AND t.x > 1) OR EXISTS (SELECT 1 FROM s WHERE s.b = r.a AND s.c = 20);

-- exists_global: a global aggregate always has a row
SELECT a FROM r WHERE EXISTS (SELECT count(*) FROM empty);

-- exists_grouped: a group with a condition
SELECT a, b FROM r WHERE EXISTS (SELECT s.b FROM s WHERE s.b = r.b GROUP BY s.b HAVING count(*) > 2);

-- exists_join: a join inside
SELECT c.name FROM customer c
WHERE EXISTS (SELECT 1 FROM orders o JOIN t ON o.day = t.day WHERE o.custkey = c.custkey AND t.x < 1);

-- exists_in_case: an existence test inside a choice
SELECT a, b, CASE WHEN EXISTS (SELECT 1 FROM s WHERE s.b = r.b) THEN 'yes' ELSE 'no' END AS found FROM r;

-- exists_in_select: an existence test as a column
SELECT a, b, EXISTS (SELECT 1 FROM s WHERE s.b = r.b) AS found FROM r;

-- exists_levels: a test within a test
SELECT a, b FROM r
WHERE EXISTS (SELECT 1 FROM s WHERE s.b = r.b AND EXISTS (SELECT 1 FROM t WHERE t.a = s.b AND t.flag));

-- not_exists_levels: the same with negations
SELECT c.custkey, c.name FROM customer c
WHERE NOT EXISTS (SELECT 1 FROM orders o WHERE o.custkey = c.custkey
                  AND NOT EXISTS (SELECT 1 FROM t WHERE t.day = o.day));

-- exists_grouped_outer: a test on groups
SELECT a, count(*) AS n FROM r GROUP BY a HAVING EXISTS (SELECT 1 FROM t WHERE t.a = r.a);

-- in: rows whose value is in another table
SELECT a, b FROM r WHERE b IN (SELECT b FROM s);

-- in_filtered: with a condition inside
SELECT a, b FROM r WHERE a IN (SELECT b FROM s WHERE c > 5 AND b IS NOT NULL);

-- not_in_with_nulls: NULLs on the right leave nothing
SELECT a, b FROM r WHERE a NOT IN (SELECT b FROM s);

-- not_in_without_nulls: NULLs on the left are left out
SELECT a, b FROM r WHERE a NOT IN (SELECT b FROM s WHERE b IS NOT NULL);

-- not_in_empty: everything, NULLs too
SELECT a, b FROM r WHERE a NOT IN (SELECT a FROM empty);

-- not_in_spelled: NOT before the whole
SELECT a, b FROM r WHERE NOT a IN (SELECT a FROM t WHERE a > 1);

-- in_expression: expressions on both sides
SELECT a, b FROM r WHERE a * 10 IN (SELECT c + b - 1 FROM s);

-- in_aggregate: one of some aggregates
SELECT a, b FROM r WHERE b IN (SELECT max(b) FROM s GROUP BY c);

-- in_union: a set operation inside
SELECT a FROM r WHERE a IN (SELECT b FROM s UNION ALL SELECT a FROM t);

-- in_types: an integer in decimals
SELECT a FROM r WHERE a IN (SELECT d * 2 FROM s);

-- in_correlated: values of the same key
SELECT r.a, r.b FROM r WHERE r.a IN (SELECT t.a FROM t WHERE t.x < r.b);

-- not_in_correlated: no value of the same key
SELECT r.a, r.b FROM r WHERE r.a NOT IN (SELECT s.c FROM s WHERE s.b = r.b);

-- not_in_correlated_levels: NOT IN inside EXISTS
SELECT r.a, r.b FROM r
WHERE EXISTS (SELECT 1 FROM s WHERE s.b = r.b AND s.c NOT IN (SELECT t.a FROM t WHERE t.a = s.b));

-- in_pair: two columns at once
SELECT a, b FROM r WHERE (a, b) IN (SELECT b, b FROM s);

-- not_in_pair: two columns, NULLs on either side
SELECT a, b FROM r WHERE (a, b) NOT IN (SELECT b, c FROM s WHERE b IS NOT NULL OR c IS NOT NULL);

-- in_or: a membership test inside OR
SELECT a, b FROM r WHERE a = 2 OR b IN (SELECT c FROM s);

-- not_in_or: its negation inside OR
SELECT a, b FROM r WHERE b IS NULL OR a NOT IN (SELECT a FROM t);

-- in_case: a membership test inside a choice
SELECT a, CASE WHEN a IN (SELECT b FROM s WHERE c = 10) THEN 1 ELSE 0 END AS found FROM r;

-- in_select: a membership test as a column, unknown taken as false
SELECT a, coalesce(a IN (SELECT b FROM s), false) AS found FROM r;

-- in_distinct_group: a membership test before groups
SELECT b, count(*) AS n FROM r WHERE b IN (SELECT a FROM t WHERE x IS NOT NULL) GROUP BY b;

-- in_scalar_levels: a scalar subquery inside IN
SELECT a, b FROM r WHERE b IN (SELECT s.b FROM s WHERE s.c = (SELECT max(c) FROM s WHERE b = 1));

-- constant_in: a constant in a table
SELECT a FROM r WHERE 8 IN (SELECT b FROM s);
