-- regexp_replace: digits go
-- clauses: regexp_replace
SELECT prod_id, regexp_replace(title, '[0-9]+', '#') AS t, regexp_replace(title, '(\\w+) (\\w+)', '$2 $1') AS swapped FROM products;

-- regexp_extract: a part
-- clauses: regexp_extract
SELECT cust_id, regexp_extract(email, '@([a-zA-Z]+)', 1) AS host FROM customers;

-- regexp_group: grouped by a part
-- clauses: regexp_extract, group by
SELECT regexp_extract(page, '^([a-z]+)', 1) AS kind, count(*) AS n FROM visits GROUP BY regexp_extract(page, '^([a-z]+)', 1);

-- regexp_count: how often
-- clauses: regexp_count
SELECT prod_id, regexp_count(title, '[aeiou]') AS vowels, regexp_substr(title, '[a-z]+') AS lower FROM products;

-- rlike: by a pattern
-- clauses: rlike
SELECT prod_id, title FROM products WHERE title RLIKE '^[A-Z]' OR regexp_like(title, 'lamp$');

-- like: with an escape, and in any case
-- clauses: like
SELECT prod_id, title LIKE '%a%' AS a, title ILIKE 'm%' AS m, title LIKE '%\\_%' AS score FROM products;

-- like_any: one of several
-- clauses: like
SELECT prod_id FROM products WHERE title LIKE ANY ('%lamp%', 'Mug%');

-- split: parts by number
-- clauses: split
SELECT cust_id, split(email, '@')[0] AS who, split_part(email, '@', 2) AS host, size(split(name, ' ')) AS words FROM customers WHERE email IS NOT NULL;

-- concat_ws: NULLs are left out
-- clauses: concat_ws
SELECT cust_id, concat_ws(', ', name, email, CAST(region_id AS STRING)) AS joined, concat(name, '/', coalesce(email, '-')) AS c, name || '!' AS d FROM customers;

-- pad: to a width
-- clauses: lpad
SELECT order_id, lpad(CAST(order_id AS STRING), 6, '0') AS l, rpad(channel, 4, '.') AS r FROM orders;

-- initcap: words in capitals
-- clauses: initcap
SELECT cust_id, initcap(name) AS n, upper(name) AS u, lower(name) AS l FROM customers;

-- substring_index: up to a dot
-- clauses: substring_index
SELECT cust_id, substring_index(email, '@', 1) AS who, substring_index(email, '.', -1) AS top FROM customers;

-- substring: from a place
-- clauses: substring
SELECT prod_id, substring(title, 2, 3) AS s, substr(title, -2) AS e, left(title, 2) AS l, right(title, 2) AS r, overlay(title PLACING '_' FROM 1 FOR 1) AS o FROM products;

-- translate: letter by letter
-- clauses: translate
SELECT prod_id, translate(title, 'aeiou', '43!0') AS t FROM products;

-- trim: spaces and other letters
-- clauses: trim
SELECT prod_id, trim(BOTH 'Mg' FROM title) AS b, ltrim(title) AS l, trim(TRAILING 'e' FROM title) AS r, btrim(concat(' ', title, ' ')) AS t FROM products;

-- format_number: with commas
-- clauses: format_number
SELECT pay_id, format_number(amount * 1000, 2) AS f, format_string('%05d-%s', pay_id, method) AS s FROM payments WHERE method IS NOT NULL;

-- to_char: numbers as texts
-- clauses: to_char
SELECT pay_id, to_char(amount, '999990.00') AS c, to_number('1,234', '9,999') AS n FROM payments;

-- position: where it is
-- clauses: position
SELECT prod_id, position('a' IN title) AS p, locate('m', title) AS l, instr(title, 'p') AS i, locate('e', title, 3) AS c FROM products;

-- lengths: in letters and in bytes
-- clauses: length
SELECT cust_id, length(name) AS n, octet_length(name) AS o, bit_length(name) AS b, ascii(name) AS a FROM customers;

-- codes: digests and other forms
-- clauses: md5
SELECT cust_id, md5(name) AS m, sha2(name, 256) AS s, hex(name) AS h, base64(CAST(name AS BINARY)) AS b, crc32(name) AS c FROM customers;

-- repeat: stars for quantities
-- clauses: repeat
SELECT order_id, line, repeat('*', qty) AS stars, reverse(CAST(order_id AS STRING)) AS back, space(line) AS gap FROM order_lines;

-- levenshtein: how alike, and how they sound
-- clauses: levenshtein
SELECT a.supp_id, b.supp_id AS other, levenshtein(a.supplier, b.supplier) AS d, soundex(a.supplier) = soundex(b.supplier) AS same FROM suppliers a JOIN suppliers b ON a.supp_id < b.supp_id;

-- url: parts of an address
-- clauses: parse_url
SELECT cust_id, parse_url(concat('http://', split_part(email, '@', 2), '/x?id=', cust_id), 'HOST') AS host, parse_url(concat('http://example.com/x?id=', cust_id), 'QUERY', 'id') AS id FROM customers WHERE email IS NOT NULL;

-- mask: hidden letters
-- clauses: mask
SELECT cust_id, mask(email) AS m, mask(name, 'X', 'x') AS n FROM customers;

-- string_group: by a cleaned text
-- clauses: group by, trim
SELECT lower(trim(supplier)) AS s, count(*) AS n, min(supplier) AS least FROM suppliers GROUP BY lower(trim(supplier));
