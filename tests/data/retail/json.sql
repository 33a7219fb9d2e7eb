-- get_json_object: by a path
-- clauses: get_json_object
SELECT prod_id, get_json_object(attrs, '$.color') AS color, get_json_object(attrs, '$.dims.w') AS w, get_json_object(attrs, '$.tags[0]') AS tag FROM products;

-- json_group: grouped by a field
-- clauses: get_json_object, group by
SELECT get_json_object(attrs, '$.color') AS color, count(*) AS n, avg(price) AS price FROM products GROUP BY get_json_object(attrs, '$.color');

-- json_cast: numbers in texts
-- clauses: get_json_object, cast
SELECT prod_id, try_cast(get_json_object(attrs, '$.size') AS INT) + 1 AS size FROM products;

-- from_json: as a struct
-- clauses: from_json, struct
SELECT prod_id, j.color, j.size FROM (SELECT prod_id, from_json(attrs, 'color STRING, size INT') AS j FROM products);

-- from_json_array: an array inside
-- clauses: from_json, explode
SELECT prod_id, tag FROM products LATERAL VIEW explode(from_json(attrs, 'tags ARRAY<STRING>').tags) t AS tag;

-- to_json: a row as a text
-- clauses: to_json, struct
SELECT order_id, to_json(named_struct('id', order_id, 'day', day, 'status', status)) AS j FROM orders;

-- json_tuple: several fields
-- clauses: json_tuple, lateral view
-- refused: LATERAL_SUBQUERY
SELECT prod_id, color, size FROM products LATERAL VIEW json_tuple(attrs, 'color', 'size') t AS color, size;

-- json_keys: the names of fields
-- clauses: json_object_keys
SELECT prod_id, array_join(json_object_keys(attrs), ',') AS names, json_array_length(get_json_object(attrs, '$.tags')) AS tags FROM products;

-- json_of_group: a text of a group
-- clauses: to_json, collect_list, sort_array
SELECT order_id, to_json(sort_array(collect_list(named_struct('line', line, 'qty', qty)))) AS j FROM order_lines GROUP BY order_id;

-- json_filter: in a condition
-- clauses: get_json_object, where, inner join
SELECT l.order_id, l.line FROM order_lines l JOIN products p ON l.prod_id = p.prod_id WHERE get_json_object(p.attrs, '$.color') = 'red';

-- csv: a text with commas
-- clauses: from_csv, to_csv
SELECT order_id, from_csv(concat(order_id, ',', channel), 'id INT, channel STRING').channel AS c, to_csv(struct(order_id, channel)) AS t FROM orders;
