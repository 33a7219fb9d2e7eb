-- star: every column of a table
SELECT * FROM r;

-- star_of_empty: a table without rows
SELECT * FROM empty;

-- qualified_star: every column of one of the tables
SELECT r.* FROM r;

-- alias_star: a star through an alias
SELECT o.* FROM orders AS o;

-- star_and_more: a star with an expression beside it
SELECT *, a + b AS total FROM r;

-- star_of_two: a star over two tables with different columns
SELECT * FROM s, t WHERE s.b = t.a;

-- columns: some columns, in another order
SELECT s, a FROM r;

-- column_twice: one column under two names
SELECT a AS one, a AS two, r.a AS three FROM r;

-- alias_without_as: AS may be left out
SELECT a p, x.b q FROM r x;

-- letter_case: names do not depend on the case of letters
SELECT A, R.b, r.S FROM R;

-- quoted_names: names in back quotes
SELECT `a`, `r`.`b` AS `b b` FROM `r`;
-- duckdb:
SELECT "a", "r"."b" AS "b b" FROM "r";

-- arithmetic: sums, differences, products, with precedence
SELECT a + b * 2 - 1 AS p, (a + b) * 2 AS q, a - b - 1 AS u, a - (b - 1) AS v FROM r;

-- unary_minus: negation of a column and of an expression
SELECT -a AS n, -(a + b) AS m, +a AS p, - -a AS pp FROM r;

-- division: `/` of integers is a double
SELECT a / 2 AS half, b / a AS ratio FROM r;

-- integer_division: div truncates toward zero
SELECT a div 2 AS q, (a - 4) div 2 AS n, (0 - a) div 2 AS m FROM r;
-- duckdb:
SELECT a // 2 AS q, (a - 4) // 2 AS n, (0 - a) // 2 AS m FROM r;

-- remainder: the sign is that of the dividend
SELECT a % 2 AS p, (a - 5) % 3 AS n, a % -2 AS m FROM r;

-- literals: a constant of each type
SELECT 1 AS i, -2 AS n, 1.5 AS d, 'text' AS s, true AS yes, false AS no, DATE '2024-01-05' AS day,
       CAST(NULL AS BIGINT) AS nothing, 2.5e0 AS e
FROM r;

-- no_from: a query that reads no table has one row
SELECT 1 + 1 AS two, 'x' AS s;

-- constants_of_empty: constants over no rows are no rows
SELECT 1 AS one FROM empty;

-- comparison_column: a condition as a column, with NULLs
SELECT a = b AS same, a < b AS less, a IS NULL AS missing, a > 1 AND b > 1 AS both FROM r;

-- boolean_columns: logic over boolean columns
SELECT flag, NOT flag AS inverse, flag AND x > 0 AS p, flag OR x > 0 AS q FROM t;

-- mixed_numbers: integer, decimal and double in one expression
SELECT b + d AS p, c * d AS q, d - 1 AS u, d + 0.5 AS v, b * 0.25 AS w FROM s;

-- double_arithmetic: doubles with integers
SELECT x * 2 AS p, x + a AS q, x / 4 AS u, -x AS n FROM t;

-- values: a table written out
SELECT v.x, v.y FROM (VALUES (1, 'a'), (2, 'b'), (2, 'b'), (NULL, 'c')) AS v(x, y);

-- later_alias: an alias used by a later column of the same list
SELECT a + 1 AS next, next * 2 AS twice FROM r;

-- column_before_alias: a column of the table goes before an alias of the same name
SELECT a + 1 AS b, b * 2 AS twice FROM r;
