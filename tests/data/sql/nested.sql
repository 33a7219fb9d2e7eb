-- star: arrays as they are
SELECT * FROM nested;

-- array_column: an array beside another column
SELECT id, tags FROM nested WHERE id IS NOT NULL;

-- explode: a row for each element, none for NULL and the empty array
SELECT id, tag FROM nested LATERAL VIEW explode(tags) e AS tag;
-- duckdb:
SELECT id, tag FROM nested, unnest(tags) e(tag);

-- explode_structs: fields of elements
SELECT id, item.part, item.qty FROM nested LATERAL VIEW explode(items) e AS item;
-- duckdb:
SELECT id, item.part, item.qty FROM nested, unnest(items) e(item);

-- explode_outer: a row of NULL for NULL and the empty array
SELECT id, tag FROM nested LATERAL VIEW OUTER explode(tags) e AS tag;
-- duckdb:
SELECT id, tag FROM nested LEFT JOIN LATERAL (SELECT unnest(tags) AS tag) e ON true;

-- explode_outer_structs: NULL fields where there is no element
SELECT id, item.part AS part FROM nested LATERAL VIEW OUTER explode(items) e AS item;
-- duckdb:
SELECT id, item.part AS part FROM nested LEFT JOIN LATERAL (SELECT unnest(items) AS item) e ON true;

-- explode_select: explode in the select list
SELECT id, explode(tags) AS tag FROM nested;
-- duckdb:
SELECT id, unnest(tags) AS tag FROM nested;

-- explode_select_outer: its outer form
SELECT id, explode_outer(tags) AS tag FROM nested;
-- duckdb:
SELECT id, tag FROM nested LEFT JOIN LATERAL (SELECT unnest(tags) AS tag) e ON true;

-- explode_struct_value: elements whole
SELECT id, explode(items) AS item FROM nested;
-- duckdb:
SELECT id, unnest(items) AS item FROM nested;

-- explode_two: every pair of two arrays' elements
SELECT id, item.part, tag FROM nested LATERAL VIEW explode(items) e AS item LATERAL VIEW explode(tags) f AS tag;
-- duckdb:
SELECT id, item.part, tag FROM nested, unnest(items) e(item), unnest(tags) f(tag);

-- explode_mixed: an inner and an outer explode
SELECT id, item.qty AS qty, tag
FROM nested LATERAL VIEW explode(items) e AS item LATERAL VIEW OUTER explode(tags) f AS tag;
-- duckdb:
SELECT id, item.qty AS qty, tag
FROM nested, unnest(items) e(item) LEFT JOIN LATERAL (SELECT unnest(tags) AS tag) f ON true;

-- explode_where: a condition on an element
SELECT id, item.qty FROM nested LATERAL VIEW explode(items) e AS item WHERE item.qty > 1 AND id > 0;
-- duckdb:
SELECT id, item.qty FROM nested, unnest(items) e(item) WHERE item.qty > 1 AND id > 0;

-- explode_group: groups of elements
SELECT item.part AS part, sum(item.qty) AS total, count(*) AS n
FROM nested LATERAL VIEW explode(items) e AS item GROUP BY item.part;
-- duckdb:
SELECT item.part AS part, sum(item.qty) AS total, count(*) AS n
FROM nested, unnest(items) e(item) GROUP BY item.part;

-- explode_join: elements joined with a table
SELECT n.id, n.item.qty, s.b, s.d
FROM (SELECT id, item FROM nested LATERAL VIEW explode(items) e AS item) n JOIN s ON s.c = n.item.part;
-- duckdb:
SELECT n.id, n.item.qty, s.b, s.d
FROM (SELECT id, item FROM nested, unnest(items) e(item)) n JOIN s ON s.c = n.item.part;

-- explode_of_join: arrays of a joined table
SELECT c.name, tag FROM customer c JOIN nested n ON c.custkey = n.id LATERAL VIEW explode(n.tags) e AS tag;
-- duckdb:
SELECT c.name, tag FROM customer c JOIN nested n ON c.custkey = n.id, unnest(n.tags) e(tag);

-- explode_distinct: distinct elements
SELECT DISTINCT tag FROM nested LATERAL VIEW explode(tags) e AS tag;
-- duckdb:
SELECT DISTINCT tag FROM nested, unnest(tags) e(tag);

-- explode_global: a global aggregate of elements
SELECT count(*) AS n, sum(item.qty) AS total FROM nested LATERAL VIEW explode(items) e AS item;
-- duckdb:
SELECT count(*) AS n, sum(item.qty) AS total FROM nested, unnest(items) e(item);

-- explode_twice: two independent explodes of one array
SELECT id, x.part AS p, y.part AS q FROM nested LATERAL VIEW explode(items) e AS x LATERAL VIEW explode(items) f AS y;
-- duckdb:
SELECT id, x.part AS p, y.part AS q FROM nested, unnest(items) e(x), unnest(items) f(y);

-- explode_subquery: explode inside a subquery
SELECT q.tag, count(*) AS n FROM (SELECT id, explode(tags) AS tag FROM nested) q GROUP BY q.tag;
-- duckdb:
SELECT q.tag, count(*) AS n FROM (SELECT id, unnest(tags) AS tag FROM nested) q GROUP BY q.tag;

-- explode_exists: elements tested against a table
SELECT id, item.part FROM nested LATERAL VIEW explode(items) e AS item
WHERE EXISTS (SELECT 1 FROM s WHERE s.c = item.part);
-- duckdb:
SELECT id, item.part FROM nested, unnest(items) e(item) WHERE EXISTS (SELECT 1 FROM s WHERE s.c = item.part);

-- array_agg: the values of a group, without NULLs
SELECT a, array_agg(b) AS bs FROM r GROUP BY a;
-- duckdb:
SELECT a, coalesce(array_agg(b) FILTER (WHERE b IS NOT NULL), []) AS bs FROM r GROUP BY a;

-- collect_list: the same, as Spark calls it
SELECT custkey, collect_list(status) AS statuses, count(*) AS n FROM orders GROUP BY custkey;
-- duckdb:
SELECT custkey, coalesce(list(status) FILTER (WHERE status IS NOT NULL), []) AS statuses, count(*) AS n
FROM orders GROUP BY custkey;

-- collect_set: distinct values of a group
SELECT b, collect_set(c) AS cs FROM s GROUP BY b;
-- duckdb:
SELECT b, coalesce(list(DISTINCT c) FILTER (WHERE c IS NOT NULL), []) AS cs FROM s GROUP BY b;

-- collect_distinct: the same with DISTINCT
SELECT b, collect_list(DISTINCT c) AS cs FROM s GROUP BY b;
-- duckdb:
SELECT b, coalesce(list(DISTINCT c) FILTER (WHERE c IS NOT NULL), []) AS cs FROM s GROUP BY b;

-- collect_expression: values of an expression
SELECT a, collect_list(a * b + 1) AS vs FROM r GROUP BY a;
-- duckdb:
SELECT a, coalesce(list(a * b + 1) FILTER (WHERE a * b + 1 IS NOT NULL), []) AS vs FROM r GROUP BY a;

-- collect_filter: values of part of a group
SELECT b, collect_list(c) FILTER (WHERE c > 5) AS cs FROM s GROUP BY b;
-- duckdb:
SELECT b, coalesce(list(c) FILTER (WHERE c > 5), []) AS cs FROM s GROUP BY b;

-- collect_structs: rows of a group; NULL fields stay
SELECT custkey, collect_list(named_struct('orderkey', orderkey, 'price', price)) AS os FROM orders GROUP BY custkey;
-- duckdb:
SELECT custkey, list({'orderkey': orderkey, 'price': price}) AS os FROM orders GROUP BY custkey;

-- array_agg_struct: fields named by their columns
SELECT b, array_agg(struct(c, d)) AS rows FROM s GROUP BY b;
-- duckdb:
SELECT b, array_agg({'c': c, 'd': d}) AS rows FROM s GROUP BY b;

-- collect_global: one array of everything, empty of nothing
SELECT collect_list(a) AS xs, collect_list(struct(a, b)) AS rows FROM r;
-- duckdb:
SELECT coalesce(list(a) FILTER (WHERE a IS NOT NULL), []) AS xs, coalesce(list({'a': a, 'b': b}), []) AS rows FROM r;

-- collect_empty: arrays of an empty table
SELECT collect_list(a) AS xs FROM empty;
-- duckdb:
SELECT coalesce(list(a), []) AS xs FROM empty;

-- collect_join: partners of each row
SELECT c.custkey, c.name, collect_list(struct(o.orderkey AS k, o.day AS day)) AS os
FROM customer c JOIN orders o ON c.custkey = o.custkey GROUP BY c.custkey, c.name;
-- duckdb:
SELECT c.custkey, c.name, list({'k': o.orderkey, 'day': o.day}) AS os
FROM customer c JOIN orders o ON c.custkey = o.custkey GROUP BY c.custkey, c.name;

-- collect_left_join: an empty array where there are none
SELECT r.a, r.b, collect_list(s.c) AS cs FROM r LEFT JOIN s ON r.b = s.b GROUP BY r.a, r.b;
-- duckdb:
SELECT r.a, r.b, coalesce(list(s.c) FILTER (WHERE s.c IS NOT NULL), []) AS cs
FROM r LEFT JOIN s ON r.b = s.b GROUP BY r.a, r.b;

-- collect_two_levels: arrays of structs with arrays
SELECT nation, collect_list(struct(name, keys)) AS customers
FROM (SELECT c.nation, c.name, collect_list(o.orderkey) AS keys
      FROM customer c JOIN orders o ON c.custkey = o.custkey GROUP BY c.nation, c.name) q
GROUP BY nation;
-- duckdb:
SELECT nation, list({'name': name, 'keys': keys}) AS customers
FROM (SELECT c.nation, c.name, coalesce(list(o.orderkey) FILTER (WHERE o.orderkey IS NOT NULL), []) AS keys
      FROM customer c JOIN orders o ON c.custkey = o.custkey GROUP BY c.nation, c.name) q
GROUP BY nation;

-- round_trip: nested, then flattened
SELECT q.custkey, o.price AS price
FROM (SELECT custkey, collect_list(struct(orderkey, price)) AS os FROM orders GROUP BY custkey) q
LATERAL VIEW explode(q.os) e AS o;
-- duckdb:
SELECT custkey, price FROM orders;

-- regroup: elements collected by another key
SELECT item.part AS part, collect_list(named_struct('id', id, 'qty', item.qty)) AS uses
FROM nested LATERAL VIEW explode(items) e AS item GROUP BY item.part;
-- duckdb:
SELECT item.part AS part, list({'id': id, 'qty': item.qty}) AS uses FROM nested, unnest(items) e(item) GROUP BY item.part;

-- struct_column: a struct as a column
SELECT a, struct(b, s) AS pair, named_struct('x', a, 'y', 1) AS named FROM r;
-- duckdb:
SELECT a, {'b': b, 's': s} AS pair, {'x': a, 'y': 1} AS named FROM r;

-- struct_field: a field of a struct of a subquery
SELECT q.pair.b AS b, q.pair.s AS s FROM (SELECT struct(b, s) AS pair FROM r) q;
-- duckdb:
SELECT b, s FROM r;

-- size: how many elements; of NULL it is NULL
SELECT id, size(tags) AS n, size(items) AS m FROM nested;
-- duckdb:
SELECT id, len(tags) AS n, len(items) AS m FROM nested;
