-- inner: a many-to-many join with NULL keys
SELECT r.a, r.b, s.c FROM r JOIN s ON r.b = s.b;

-- inner_spelled: INNER may be written
SELECT r.a, s.c FROM r INNER JOIN s ON r.b = s.b;

-- comma: a join written with a comma
SELECT r.a, s.c, s.d FROM r, s WHERE r.b = s.b;

-- comma_filter: a comma join with conditions on each side
SELECT r.a, s.c FROM r, s WHERE r.b = s.b AND r.a = 1 AND s.c > 5;

-- cross: all pairs
SELECT r.a, t.x FROM r CROSS JOIN t;

-- cross_empty: all pairs with nothing
SELECT r.a AS ra, empty.a AS ea FROM r CROSS JOIN empty;

-- join_without_on: JOIN without a condition is all pairs
SELECT r.a, customer.name FROM r JOIN customer;
-- duckdb:
SELECT r.a, customer.name FROM r CROSS JOIN customer;

-- left: rows of the left stay
SELECT r.a, r.b, s.c FROM r LEFT JOIN s ON r.b = s.b;

-- left_outer: OUTER may be written
SELECT r.a, r.b, s.b AS sb, s.d FROM r LEFT OUTER JOIN s ON r.b = s.b;

-- right: rows of the right stay
SELECT r.a, s.b, s.c FROM r RIGHT JOIN s ON r.b = s.b;

-- full: rows of both stay
SELECT r.a, r.b, s.b AS sb, s.c FROM r FULL OUTER JOIN s ON r.b = s.b;

-- left_empty: an outer join with nothing
SELECT r.a, empty.b FROM r LEFT JOIN empty ON r.a = empty.a;

-- right_empty: nothing on the left side
SELECT empty.a AS ea, r.a FROM empty RIGHT JOIN r ON r.a = empty.a;

-- full_empty: nothing on one side of a full join
SELECT empty.a AS ea, r.a FROM empty FULL JOIN r ON r.a = empty.a;

-- semi: rows that have a partner, once each
SELECT r.a, r.b, r.s FROM r LEFT SEMI JOIN s ON r.b = s.b;
-- duckdb:
SELECT r.a, r.b, r.s FROM r SEMI JOIN s ON r.b = s.b;

-- semi_star: only the left columns are there
SELECT * FROM r LEFT SEMI JOIN s ON r.b = s.b AND s.c > 10;
-- duckdb:
SELECT * FROM r SEMI JOIN s ON r.b = s.b AND s.c > 10;

-- anti: rows that have no partner, those with NULL keys too
SELECT r.a, r.b, r.s FROM r LEFT ANTI JOIN s ON r.b = s.b;
-- duckdb:
SELECT r.a, r.b, r.s FROM r ANTI JOIN s ON r.b = s.b;

-- anti_condition: a partner must also pass a condition
SELECT r.a, r.b FROM r LEFT ANTI JOIN s ON r.b = s.b AND s.c > r.a * 10;
-- duckdb:
SELECT r.a, r.b FROM r ANTI JOIN s ON r.b = s.b AND s.c > r.a * 10;

-- semi_after_join: a semi join over a join
SELECT r.a, s.c FROM r JOIN s ON r.b = s.b LEFT SEMI JOIN t ON t.a = r.a;
-- duckdb:
SELECT r.a, s.c FROM r JOIN s ON r.b = s.b SEMI JOIN t ON t.a = r.a;

-- using: a join by a common column
SELECT b, a, c FROM r JOIN s USING (b);

-- using_star: the common column comes first, once
SELECT * FROM r JOIN s USING (b);
-- duckdb:
SELECT b, a, s, c, d FROM r JOIN s USING (b);

-- using_left: the common column is the left one's
SELECT b, a, q.b AS qb, c FROM r LEFT JOIN s q USING (b);

-- using_right: the common column is the right one's
SELECT b, a, c FROM r RIGHT JOIN s USING (b);
-- duckdb:
SELECT s.b, a, c FROM r RIGHT JOIN s ON r.b = s.b;

-- using_full: the common column is that of either
SELECT b, a, c FROM r FULL JOIN s USING (b);
-- duckdb:
SELECT coalesce(r.b, s.b) AS b, a, c FROM r FULL JOIN s ON r.b = s.b;

-- using_two: a join by two common columns
SELECT x.a, x.b, y.s FROM r x JOIN r y USING (a, b);

-- natural: a join by all common columns
SELECT a, b, s, x, flag FROM r NATURAL JOIN t;

-- natural_left: its outer form
SELECT custkey, orderkey, name FROM orders NATURAL LEFT JOIN customer;

-- self: a join of a table with itself
SELECT x.a, y.a AS ya FROM r x JOIN r y ON x.b = y.b;

-- self_shifted: a self join on an expression
SELECT x.a, y.a AS next FROM r x JOIN r y ON x.a + 1 = y.a;

-- self_three: a table three times
SELECT x.a, z.s FROM r x JOIN r y ON x.a = y.b JOIN r z ON y.a = z.b WHERE x.b = 2;

-- non_equi: a join by an order
SELECT r.a, s.b FROM r JOIN s ON r.a < s.b;

-- non_equi_left: its outer form
SELECT r.a, s.c FROM r LEFT JOIN s ON r.a > s.c;

-- range: an equality and a range
SELECT r.a, r.b, s.c FROM r JOIN s ON r.b = s.b AND s.c BETWEEN r.a AND r.a * 10;

-- or: either of two equalities
SELECT r.a, r.b, s.b AS sb, s.c FROM r JOIN s ON r.b = s.b OR r.a = s.c;

-- or_left: either of two equalities, outer
SELECT r.a, r.b, s.c FROM r LEFT JOIN s ON r.a = s.b OR r.b = s.c;

-- expressions: equality of expressions
SELECT r.a, s.c FROM r JOIN s ON r.a * 10 = s.c;

-- expressions_both: expressions over both tables
SELECT r.a, r.b, s.b AS sb FROM r JOIN s ON r.a + s.b = r.b + 1;

-- null_safe: NULL keys match
SELECT r.a, r.b, s.c FROM r JOIN s ON r.b <=> s.b;
-- duckdb:
SELECT r.a, r.b, s.c FROM r JOIN s ON r.b IS NOT DISTINCT FROM s.b;

-- dates: a join by day
SELECT o.orderkey, t.x FROM orders o JOIN t ON o.day = t.day;

-- mixed_types: an integer key with a decimal key
SELECT r.a, s.d FROM r JOIN s ON r.a = s.d * 2;

-- left_filter_in_on: a condition on the right side in ON keeps the row
SELECT r.a, r.b, s.c FROM r LEFT JOIN s ON r.b = s.b AND s.c > 10;

-- left_own_filter_in_on: a condition on the left side in ON keeps the row too
SELECT r.a, r.b, s.c FROM r LEFT JOIN s ON r.b = s.b AND r.a = 1;

-- left_filter_in_where: a condition in WHERE drops it
SELECT r.a, r.b, s.c FROM r LEFT JOIN s ON r.b = s.b WHERE s.c > 10;

-- left_without_partner: rows that found nothing
SELECT r.a, r.b FROM r LEFT JOIN s ON r.b = s.b WHERE s.b IS NULL;

-- full_filter: a full join with a condition on one side in ON
SELECT r.a, r.b, s.c FROM r FULL JOIN s ON r.b = s.b AND s.c = 10;

-- on_constant: a join whose condition reads one side only
SELECT r.a, s.c FROM r JOIN s ON r.a = 1 AND s.c = 10;

-- on_true: an outer join that always matches, if there is something
SELECT r.a, e.b FROM r LEFT JOIN empty e ON true;

-- three: a chain of three
SELECT c.name, o.price, t.x FROM customer c JOIN orders o ON c.custkey = o.custkey JOIN t ON o.day = t.day;

-- three_comma: three tables with commas
SELECT r.a, s.c, t.x FROM r, s, t WHERE r.b = s.b AND s.c = t.a;

-- four: a chain of four
SELECT c.name, o.orderkey, r.s, s.d
FROM customer c
JOIN orders o ON c.custkey = o.custkey
JOIN r ON r.a = o.custkey
JOIN s ON s.b = r.b
WHERE o.status = 'O' AND s.c = 10;

-- triangle: three tables in a cycle
SELECT r.a, s.b, t.x FROM r JOIN s ON r.b = s.b JOIN t ON t.a = r.a AND t.a = s.b;

-- left_of_left: an outer join of an outer join
SELECT r.a, s.c, t.x FROM r LEFT JOIN s ON r.b = s.b LEFT JOIN t ON s.c = t.a;

-- left_then_inner: an inner join that undoes an outer one
SELECT r.a, s.c, t.x FROM r LEFT JOIN s ON r.b = s.b JOIN t ON s.b = t.a;

-- full_of_full: a full join of a full join
SELECT r.a, s.b, t.a AS ta FROM r FULL JOIN s ON r.a = s.b FULL JOIN t ON s.b = t.a;

-- right_of_left: a right join over a left join
SELECT r.a, s.c, t.a AS ta, t.x FROM r LEFT JOIN s ON r.b = s.b RIGHT JOIN t ON r.a = t.a;

-- bracketed: an outer join with a join in brackets
SELECT c.name, o.orderkey, t.x
FROM customer c LEFT JOIN (orders o JOIN t ON o.day = t.day) ON c.custkey = o.custkey;

-- left_of_grouped: an outer join to a grouped subquery
SELECT c.name, g.n, g.total
FROM customer c
LEFT JOIN (SELECT custkey, count(*) AS n, sum(price) AS total FROM orders GROUP BY custkey) g
ON c.custkey = g.custkey;

-- join_of_grouped: two grouped subqueries joined
SELECT x.k, x.n, y.m
FROM (SELECT a AS k, count(*) AS n FROM r GROUP BY a) x
FULL JOIN (SELECT b AS k2, max(c) AS m FROM s GROUP BY b) y ON x.k = y.k2;

-- left_coalesced: the missing side replaced by a constant
SELECT r.a, coalesce(s.c, -1) AS c FROM r LEFT JOIN s ON r.b = s.b;

-- constant_side: an outer join whose right side has constants
SELECT r.a, z.one FROM r LEFT JOIN (SELECT b, 1 AS one FROM s) z ON r.b = z.b;

-- duplicates: rows that repeat on both sides
SELECT c.name, o.status FROM customer c JOIN orders o ON c.custkey = o.custkey;

-- using_twice: a column that two joins merge is one, and a full join gives either side
SELECT a, x FROM r JOIN empty USING (a) FULL JOIN t USING (a);

-- using_twice_right: the second join decides whose column it is
SELECT a FROM r LEFT JOIN empty USING (a) RIGHT JOIN t USING (a);
-- duckdb:
SELECT t.a FROM r LEFT JOIN empty e ON r.a = e.a RIGHT JOIN t ON r.a = t.a;

-- using_twice_star: the merged column comes once
SELECT * FROM r LEFT JOIN empty e USING (a, b) LEFT JOIN t USING (a);

-- using_semi_star: a merged column comes first
SELECT * FROM s LEFT SEMI JOIN r USING (b);
-- duckdb:
SELECT b, c, d FROM s SEMI JOIN r USING (b);
