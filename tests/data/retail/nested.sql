-- explode_split: words of a text
-- clauses: lateral view, explode, split
SELECT prod_id, word FROM products LATERAL VIEW explode(split(title, ' ')) t AS word;

-- explode_split_group: how often each word is there
-- clauses: lateral view, explode, split, group by
SELECT lower(word) AS word, count(*) AS n FROM products LATERAL VIEW explode(split(title, '[ -]')) t AS word GROUP BY lower(word);

-- explode_select: in the list
-- clauses: explode, split
SELECT cust_id, explode(split(name, ' +')) AS part FROM customers;

-- explode_sequence: a row for each number
-- clauses: lateral view, explode, sequence
SELECT order_id, line, piece FROM order_lines LATERAL VIEW explode(sequence(1, qty)) t AS piece WHERE qty > 0;

-- explode_days: a row for each day of a promotion
-- clauses: lateral view, explode, sequence, group by
SELECT d, count(*) AS running FROM promotions LATERAL VIEW explode(sequence(starts, ends, INTERVAL 7 DAYS)) t AS d GROUP BY d;

-- explode_months: a calendar that is joined
-- clauses: explode, sequence, left join, group by
SELECT m.month, count(o.order_id) AS n
FROM (SELECT explode(sequence(DATE '2023-11-01', DATE '2024-03-01', INTERVAL 1 MONTH)) AS month) m
LEFT JOIN orders o ON date_trunc('MONTH', o.day) = m.month GROUP BY m.month;

-- explode_array: of a column
-- clauses: lateral view, explode, array column
SELECT basket_id, tag FROM baskets LATERAL VIEW explode(tags) t AS tag;

-- explode_outer: with those that have none
-- clauses: lateral view outer, explode, array column
SELECT basket_id, tag FROM baskets LATERAL VIEW OUTER explode(tags) t AS tag;

-- explode_structs: the items of baskets
-- clauses: lateral view, explode, array column, struct
SELECT b.basket_id, i.item.prod, i.item.qty FROM baskets b LATERAL VIEW explode(b.items) i AS item;

-- inline: structs as columns
-- clauses: lateral view, inline, array column
SELECT basket_id, prod, qty FROM baskets LATERAL VIEW inline(items) t AS prod, qty;

-- posexplode: with the place
-- clauses: lateral view, posexplode, array column
-- refused: ARRAY_ORDER
SELECT basket_id, at, tag FROM baskets LATERAL VIEW posexplode(tags) t AS at, tag;

-- explode_join: items joined with products
-- clauses: lateral view, explode, inner join, array column
SELECT p.title, sum(i.item.qty) AS n FROM (SELECT item FROM baskets LATERAL VIEW explode(items) t AS item) i JOIN products p ON p.prod_id = i.item.prod GROUP BY p.title;

-- explode_two: pairs of tags and items
-- clauses: lateral view, explode, array column
SELECT tag, item.prod, count(*) AS n FROM baskets LATERAL VIEW explode(tags) t AS tag LATERAL VIEW explode(items) i AS item GROUP BY tag, item.prod;

-- lateral_subquery: the orders of each customer, counted
-- clauses: lateral join
SELECT c.cust_id, t.n, t.last FROM customers c, LATERAL (SELECT count(*) AS n, max(day) AS last FROM orders o WHERE o.cust_id = c.cust_id) t;

-- lateral_rows: rows of another table for each row
-- clauses: lateral join
SELECT c.cust_id, t.order_id FROM customers c JOIN LATERAL (SELECT order_id FROM orders o WHERE o.cust_id = c.cust_id AND o.channel = 'web') t;

-- lateral_left: with those that have none
-- clauses: lateral join, left join
SELECT c.cust_id, t.order_id FROM customers c LEFT JOIN LATERAL (SELECT order_id FROM orders o WHERE o.cust_id = c.cust_id AND o.status = 'paid') t ON true;

-- lateral_top: the newest order of each
-- clauses: lateral join, order by, limit, top n per group
SELECT c.cust_id, t.order_id, t.day FROM customers c, LATERAL (SELECT order_id, day FROM orders o WHERE o.cust_id = c.cust_id ORDER BY o.order_id DESC LIMIT 1) t;

-- lateral_inequality: promotions that run on the day of an order
-- clauses: lateral join, non-equi correlation
SELECT o.order_id, t.n FROM orders o, LATERAL (SELECT count(*) AS n FROM promotions p WHERE o.day BETWEEN p.starts AND p.ends) t;

-- lateral_expression: a name for an expression
-- clauses: lateral join
SELECT order_id, line, t.total FROM order_lines, LATERAL (SELECT price * qty AS total) t WHERE t.total > 40;

-- lateral_explode: a table function
-- clauses: lateral join, explode
SELECT b.basket_id, t.col AS tag FROM baskets b, LATERAL explode(b.tags) t;

-- struct_fields: parts of a struct
-- clauses: struct
SELECT basket_id, ship.city, ship.zip FROM baskets WHERE ship.city IS NOT NULL;

-- struct_group: grouped by a field
-- clauses: struct, group by
SELECT ship.city AS city, count(*) AS n, count(DISTINCT ship.zip) AS zips FROM baskets GROUP BY ship.city;

-- struct_key: grouped by the whole
-- clauses: struct, group by
SELECT ship, count(*) AS n FROM baskets GROUP BY ship;

-- struct_made: a struct in the answer
-- clauses: struct
SELECT order_id, named_struct('day', day, 'channel', channel) AS what FROM orders;

-- array_whole: an array in the answer
-- clauses: array column
-- arrays: in any order
SELECT basket_id, tags FROM baskets WHERE cust_id = 1;

-- array_size: how many
-- clauses: array column, size
SELECT basket_id, size(tags) AS n, cardinality(items) AS m FROM baskets WHERE tags IS NOT NULL AND items IS NOT NULL;

-- array_contains: whether it is there
-- clauses: array column, array_contains
SELECT basket_id, array_contains(tags, 'gift') AS gift FROM baskets;

-- array_functions: sorted, different, smallest
-- clauses: array column, sort_array, array_distinct
SELECT basket_id, sort_array(array_distinct(tags)) AS tags, array_min(tags) AS least, array_max(tags) AS most FROM baskets;

-- array_text: joined as a text
-- clauses: array column, array_join
SELECT basket_id, array_join(sort_array(tags), '|', '?') AS text FROM baskets;

-- transform: each element changed
-- clauses: transform, array column
SELECT basket_id, sort_array(transform(tags, t -> upper(t))) AS tags FROM baskets;

-- filter_elements: some elements
-- clauses: filter function, array column
SELECT basket_id, size(filter(items, i -> i.qty > 1)) AS several FROM baskets WHERE items IS NOT NULL;

-- exists_elements: whether one is
-- clauses: exists function, array column
SELECT basket_id, exists(items, i -> i.prod = 7) AS seven, forall(tags, t -> length(t) > 3) AS long FROM baskets;

-- aggregate_elements: a sum over an array
-- clauses: aggregate function, array column
SELECT basket_id, aggregate(items, 0, (a, i) -> a + coalesce(i.qty, 0)) AS pieces FROM baskets;

-- aggregate_split: a sum over numbers in a text
-- clauses: aggregate function, transform, split
SELECT order_id, aggregate(transform(split(CAST(day AS STRING), '-'), x -> CAST(x AS INT)), 0, (a, x) -> a + x) AS digits FROM orders;

-- higher_order_sum: summed over rows
-- clauses: aggregate function, group by, array column
SELECT cust_id, sum(aggregate(items, 0, (a, i) -> a + coalesce(i.qty, 0))) AS pieces FROM baskets GROUP BY cust_id;

-- arrays_zip: side by side
-- clauses: arrays_zip, explode, array column
-- refused: UnknownName
SELECT basket_id, z.tags AS tag, z.items.qty AS qty FROM baskets LATERAL VIEW explode(arrays_zip(tags, items)) t AS z;

-- array_sets: together, in both, in one
-- clauses: array_union, array_intersect, array_except
SELECT basket_id, sort_array(array_union(tags, array('new'))) AS u, sort_array(array_intersect(tags, array('gift', 'eco'))) AS i, sort_array(array_except(tags, array('gift'))) AS e FROM baskets;

-- element: by its place
-- clauses: element_at, split
SELECT cust_id, split(name, ' ')[0] AS first, try_element_at(split(name, ' '), -1) AS last FROM customers;

-- map: a map of texts
-- clauses: map, split
SELECT order_id, map('c', channel, 's', status)['s'] AS status, element_at(map('c', channel), 'c') AS channel FROM orders;

-- nested_group: an array of structs per group
-- clauses: collect_list, struct
-- arrays: in any order
SELECT o.cust_id, collect_list(struct(o.order_id, o.day)) AS orders FROM orders o WHERE o.cust_id IS NOT NULL GROUP BY o.cust_id;

-- nested_two: arrays in arrays
-- clauses: collect_list, struct, derived table
-- arrays: in any order
SELECT o.cust_id, collect_list(struct(o.order_id, t.lines)) AS orders FROM orders o JOIN (
  SELECT order_id, collect_list(struct(prod_id, qty)) AS lines FROM order_lines GROUP BY order_id
) t ON o.order_id = t.order_id GROUP BY o.cust_id;

-- nested_and_back: collected, then taken apart
-- clauses: collect_set, explode, group by
SELECT status, count(*) AS customers FROM (SELECT cust_id, collect_set(status) AS found FROM orders GROUP BY cust_id) LATERAL VIEW explode(found) t AS status GROUP BY status;

-- stack: rows from columns
-- clauses: stack
-- refused: LATERAL_SUBQUERY
SELECT cust_id, what, value FROM customers LATERAL VIEW stack(2, 'name', name, 'email', email) t AS what, value;
