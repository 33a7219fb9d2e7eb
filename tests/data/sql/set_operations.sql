-- union_all: multiplicities add
SELECT a FROM r UNION ALL SELECT b FROM s;

-- union: each row once
SELECT a FROM r UNION SELECT b FROM s;

-- union_distinct: DISTINCT may be written
SELECT a, b FROM r UNION DISTINCT SELECT b, c FROM s;

-- union_same: a table with itself
SELECT a, b FROM r UNION ALL SELECT a, b FROM r;

-- union_names: the names are those of the first
SELECT a AS k, s AS label FROM r UNION ALL SELECT custkey, name FROM customer;

-- union_constants: a tag for each side
SELECT 'r' AS src, a AS k FROM r UNION ALL SELECT 's', b FROM s UNION ALL SELECT 'e', a FROM empty;

-- union_decimal: integers with decimals become decimals
SELECT a FROM r UNION ALL SELECT d FROM s;

-- union_decimal_distinct: 1 and 1.00 are one row
SELECT b FROM s UNION SELECT CAST(b AS DECIMAL(8,2)) FROM s;

-- union_double: integers with doubles become doubles
SELECT b FROM s UNION SELECT x FROM t;

-- union_null: a bare NULL takes the other side's type
SELECT a, NULL AS day FROM r UNION ALL SELECT a, day FROM t;

-- union_empty: nothing adds nothing
SELECT a, b FROM r UNION ALL SELECT a, b FROM empty;

-- intersect: rows of both, once
SELECT a FROM r INTERSECT SELECT b FROM s;

-- intersect_two: NULLs are equal here
SELECT a, b FROM r INTERSECT SELECT b, c FROM s;

-- intersect_all: the smaller multiplicity
SELECT a FROM r INTERSECT ALL SELECT b FROM s;

-- intersect_types: integers with decimals
SELECT a FROM r INTERSECT SELECT d * 2 FROM s;

-- except: rows of the first only, once
SELECT a FROM r EXCEPT SELECT b FROM s;

-- except_swapped: the other way round
SELECT b FROM s EXCEPT SELECT a FROM r;

-- except_all: multiplicities subtract, not below zero
SELECT a FROM r EXCEPT ALL SELECT b FROM s;

-- except_all_self: nothing is left
SELECT a, b FROM r EXCEPT ALL SELECT a, b FROM r;

-- except_empty: nothing taken away still removes duplicates
SELECT a, b FROM r EXCEPT SELECT a, b FROM empty;

-- minus: another name for EXCEPT
SELECT b FROM r MINUS SELECT a FROM t;
-- duckdb:
SELECT b FROM r EXCEPT SELECT a FROM t;

-- left_to_right: UNION ALL and EXCEPT bind alike
SELECT a FROM r UNION ALL SELECT b FROM s EXCEPT SELECT a FROM t;

-- intersect_first: INTERSECT binds tighter than UNION
SELECT a FROM r UNION ALL SELECT b FROM s INTERSECT SELECT a FROM t;

-- parentheses: the other reading
(SELECT a FROM r UNION ALL SELECT b FROM s) INTERSECT SELECT a FROM t;

-- parentheses_right: a set operation on the right
SELECT a FROM r EXCEPT ALL (SELECT b FROM s UNION ALL SELECT a FROM t);

-- union_then_all: distinct in the middle
SELECT a FROM r UNION SELECT b FROM s UNION ALL SELECT a FROM t;

-- all_then_union: distinct at the end
SELECT a FROM r UNION ALL SELECT b FROM s UNION SELECT a FROM t;

-- both_alls: EXCEPT ALL over INTERSECT ALL
SELECT a FROM r EXCEPT ALL (SELECT a FROM r INTERSECT ALL SELECT b FROM s);

-- in_from: a set operation that is grouped
SELECT k, count(*) AS n FROM (SELECT a AS k FROM r UNION ALL SELECT b FROM s) u GROUP BY k;

-- of_groups: grouped queries united
SELECT a AS k, count(*) AS n FROM r GROUP BY a UNION ALL SELECT b, sum(c) FROM s GROUP BY b;

-- of_joins: joins in both parts
SELECT r.a, s.c FROM r JOIN s ON r.b = s.b EXCEPT SELECT r.a, s.c FROM r JOIN s ON r.a = s.b;

-- joined: a set operation in a join
SELECT u.k, t.x FROM (SELECT a AS k FROM r INTERSECT SELECT b FROM s) u JOIN t ON u.k = t.a;

-- with_total: rows and their total
SELECT CAST(custkey AS STRING) AS who, sum(price) AS total FROM orders GROUP BY custkey
UNION ALL
SELECT 'all', sum(price) FROM orders;
