-- equal: rows where a column has a value
SELECT a, b FROM r WHERE a = 1;

-- not_equal: NULL is not unequal to anything
SELECT a, b FROM r WHERE a <> 1;

-- not_equal_bang: the other spelling
SELECT a, b FROM r WHERE b != 1;

-- less: strict comparison
SELECT a, b FROM r WHERE a < 2;

-- less_equal: comparison with the value
SELECT a, b FROM r WHERE a <= 2;

-- greater: comparison of two columns
SELECT a, b FROM r WHERE a > b;

-- greater_equal: comparison with an expression
SELECT a, b FROM r WHERE a >= b + 1;

-- and: both conditions
SELECT a, b FROM r WHERE a = 1 AND b = 1;

-- or: either condition, one of them unknown
SELECT a, b FROM r WHERE a = 1 OR b = 1;

-- not: the opposite of a condition, unknown stays out
SELECT a, b FROM r WHERE NOT (a = 1);

-- not_and: the opposite of a conjunction with NULLs
SELECT a, b FROM r WHERE NOT (a = 1 AND b = 1);

-- not_or: the opposite of a disjunction with NULLs
SELECT a, b FROM r WHERE NOT (a = 1 OR b = 1);

-- precedence: AND binds tighter than OR
SELECT a, b FROM r WHERE a = 2 OR a = 1 AND b = 2;

-- parentheses: OR inside AND
SELECT a, b FROM r WHERE (a = 2 OR a = 1) AND (b = 2 OR b IS NULL);

-- between: both ends belong
SELECT a, b FROM r WHERE a BETWEEN 2 AND 4;

-- not_between: outside of a range
SELECT a, b FROM r WHERE a NOT BETWEEN 2 AND 4;

-- between_columns: a range given by columns
SELECT b, c FROM s WHERE 5 BETWEEN b AND c;

-- in_list: one of some values
SELECT a, b FROM r WHERE a IN (1, 3, 99);

-- not_in_list: none of some values
SELECT a, b FROM r WHERE a NOT IN (1, 3);

-- in_list_with_null: NULL in the list finds nothing more
SELECT a, b FROM r WHERE a IN (1, NULL);

-- not_in_list_with_null: NULL in the list leaves nothing
SELECT a, b FROM r WHERE a NOT IN (1, NULL);

-- in_expressions: expressions on both sides of IN
SELECT a, b FROM r WHERE a + 1 IN (b + 1, b + 2, 8);

-- in_strings: one of some texts
SELECT s FROM r WHERE s IN ('x', 'banana', '');

-- like_prefix: a pattern with a wildcard at its end
SELECT s FROM r WHERE s LIKE 'a%';

-- like_infix: a pattern with wildcards around
SELECT s FROM r WHERE s LIKE '%an%';

-- like_one: a pattern of exact length
SELECT s FROM r WHERE s LIKE '_';

-- not_like: what does not match, and is not NULL
SELECT s FROM r WHERE s NOT LIKE '%a%';

-- like_escape: wildcards as ordinary characters
SELECT s FROM r WHERE s LIKE '%!%%!_%' ESCAPE '!';

-- ilike: without regard to case
SELECT s FROM r WHERE s ILIKE 'APPLE%';

-- is_null: only NULLs
SELECT a, b FROM r WHERE b IS NULL;

-- is_not_null: everything else
SELECT a, b FROM r WHERE a IS NOT NULL AND b IS NOT NULL;

-- equal_to_null: never true
SELECT a, b FROM r WHERE a = NULL;

-- null_safe_equal: NULL is NULL
SELECT a, b FROM r WHERE a <=> b;
-- duckdb:
SELECT a, b FROM r WHERE a IS NOT DISTINCT FROM b;

-- is_distinct_from: the opposite, in standard words
SELECT a, b FROM r WHERE a IS DISTINCT FROM b;

-- flag: a boolean column as the condition
SELECT a, flag FROM t WHERE flag;

-- not_flag: its opposite leaves NULL out
SELECT a, flag FROM t WHERE NOT flag;

-- is_true: tests for truth that are never NULL
SELECT a, flag FROM t WHERE flag IS NOT TRUE AND flag IS NOT FALSE OR flag IS TRUE;

-- flag_compared: a boolean compared with a constant
SELECT a, flag FROM t WHERE flag = false OR flag <> (x > 0);

-- nothing: a constant condition that fails
SELECT a FROM r WHERE 1 = 0;

-- everything: a constant condition that holds
SELECT a FROM r WHERE true;

-- null_condition: a condition that is NULL
SELECT a FROM r WHERE CAST(NULL AS BOOLEAN);

-- dates: comparison of days
SELECT orderkey, day FROM orders WHERE day > DATE '2024-01-31';

-- date_and_text: a text compared with a day is read as a day
SELECT orderkey, day FROM orders WHERE day >= '2024-01-31' AND day < '2024-03-01';

-- decimals: a decimal compared with an integer and a decimal
SELECT b, d FROM s WHERE d >= 1 AND d < 12.5;

-- doubles: a double compared with a decimal constant
SELECT a, x FROM t WHERE x > 0.25 OR x = -1.5;

-- texts: order of texts
SELECT s FROM r WHERE s >= 'a' AND s < 'b';

-- expression: arithmetic in a condition
SELECT a, b FROM r WHERE a * 2 + b > 4;

-- case_condition: a choice as the condition
SELECT a, b FROM r WHERE CASE WHEN a IS NULL THEN b = 1 ELSE a > 2 END;

-- guarded_division: a divisor that may be zero
SELECT a, b FROM r WHERE 6 / nullif(a - 1, 0) > 3;
