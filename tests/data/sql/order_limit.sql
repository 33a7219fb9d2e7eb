-- order_only: an order alone does not change the bag
SELECT a, b FROM r ORDER BY a, b;

-- limit: the first rows
SELECT a, b, s FROM r ORDER BY a NULLS LAST, b NULLS LAST, s NULLS LAST LIMIT 4;

-- limit_ties: rows that repeat across the limit
SELECT b FROM r ORDER BY b NULLS LAST LIMIT 3;

-- nulls_by_default: NULLs come first going up
SELECT a FROM r ORDER BY a LIMIT 4;
-- duckdb:
SELECT a FROM r ORDER BY a ASC NULLS FIRST LIMIT 4;

-- nulls_by_default_down: and last going down
SELECT a FROM r ORDER BY a DESC LIMIT 4;
-- duckdb:
SELECT a FROM r ORDER BY a DESC NULLS LAST LIMIT 4;

-- down_nulls_first: NULLs first, said explicitly
SELECT c FROM s ORDER BY c DESC NULLS FIRST LIMIT 3;

-- two_directions: up by one column, down by another
SELECT a, b FROM r ORDER BY a ASC NULLS LAST, b DESC NULLS FIRST LIMIT 6;

-- offset: the rows after the first
SELECT a, b FROM r ORDER BY a NULLS LAST, b NULLS LAST LIMIT 3 OFFSET 2;

-- offset_only: all but the first
SELECT a, b FROM r ORDER BY a NULLS LAST, b NULLS LAST OFFSET 9;

-- limit_zero: no rows
SELECT a FROM r ORDER BY a NULLS LAST LIMIT 0;

-- limit_large: more than there are
SELECT a FROM r ORDER BY a NULLS LAST LIMIT 1000;

-- by_expression: an order by what is not shown
SELECT a, b FROM r ORDER BY a + b NULLS LAST, a NULLS LAST, b NULLS LAST LIMIT 5;

-- by_hidden_column: an order by columns that are not shown
SELECT price FROM orders ORDER BY day DESC NULLS LAST, price DESC NULLS LAST LIMIT 5;

-- by_alias: an order by an alias
SELECT a, b * -1 AS n FROM r ORDER BY n NULLS LAST, a NULLS LAST LIMIT 4;

-- by_position: an order by position
SELECT b, a FROM r ORDER BY 2 DESC NULLS LAST, 1 NULLS FIRST LIMIT 5;

-- of_groups: the largest groups
SELECT custkey, sum(price) AS total FROM orders GROUP BY custkey
ORDER BY total DESC NULLS LAST, custkey NULLS LAST LIMIT 2;

-- by_aggregate: an order by an aggregate that is not shown
SELECT a FROM r GROUP BY a ORDER BY count(*) DESC, a NULLS LAST LIMIT 2;

-- of_join: the first rows of a join
SELECT r.a, s.c FROM r JOIN s ON r.b = s.b ORDER BY s.c DESC NULLS LAST, r.a DESC NULLS LAST LIMIT 5;

-- of_distinct: the first distinct rows
SELECT DISTINCT b FROM r ORDER BY b DESC NULLS LAST LIMIT 2;

-- of_union: the first rows of a union
SELECT a AS k FROM r UNION ALL SELECT b FROM s ORDER BY k DESC NULLS LAST LIMIT 4;

-- inside: the first rows of a subquery, joined
SELECT q.c, r.a FROM (SELECT b, c FROM s ORDER BY c DESC NULLS LAST, b NULLS LAST LIMIT 3) q JOIN r ON r.b = q.b;

-- inside_grouped: the first rows of a subquery, summed
SELECT count(*) AS n, sum(price) AS total FROM (SELECT price FROM orders ORDER BY price DESC NULLS LAST LIMIT 4) q;

-- part_of_union: a limit in one part of a union
(SELECT a AS k FROM r ORDER BY a DESC NULLS LAST LIMIT 2) UNION ALL SELECT b FROM s WHERE c = 20;

-- texts_and_dates: an order by texts and days
SELECT status, day FROM orders ORDER BY status DESC NULLS LAST, day NULLS FIRST LIMIT 5;

-- limit_one: the single first row
SELECT a, x FROM t ORDER BY x DESC NULLS LAST, a NULLS LAST LIMIT 1;

-- by_alias_that_hides: an alias that is also a column means the output, in expressions too
SELECT -a AS a FROM r WHERE a IS NOT NULL ORDER BY a + 0 LIMIT 1;
-- duckdb:
SELECT -a AS n FROM r WHERE a IS NOT NULL ORDER BY n LIMIT 1;
