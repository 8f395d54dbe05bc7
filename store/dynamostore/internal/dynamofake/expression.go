package dynamofake

import (
	"bytes"
	"maps"
	"math/big"
	"reflect"
	"regexp"
	"slices"
	"strings"
)

// write is a write of one item, in a transaction or alone.
type write struct {
	TableName                           string
	Item, Key                           item
	ConditionExpression                 string
	UpdateExpression                    string
	ExpressionAttributeNames            map[string]string
	ExpressionAttributeValues           item
	ReturnValuesOnConditionCheckFailure string
}

// identity returns the table and key of a write's item as one string.
func (s *Server) identity(kind string, w *write) (string, error) {
	t := s.tables[w.TableName]
	if t == nil {
		return "", &refused{code: "ResourceNotFoundException", message: "Requested resource not found"}
	}
	key := w.Key
	if kind == "Put" {
		key = w.Item
	}
	name, err := t.key(key)
	return w.TableName + "\x00" + name, err
}

// prepare checks a write and returns its effect.
func (s *Server) prepare(kind string, w *write) (apply func(), err error) {
	name, err := s.identity(kind, w)
	if err != nil {
		return nil, err
	}
	t := s.tables[w.TableName]
	_, key, _ := strings.Cut(name, "\x00")
	old := t.items[key]
	if err := w.used(); err != nil {
		return nil, err
	}
	if w.ConditionExpression != "" {
		condition, err := parseCondition(w.ConditionExpression, w)
		if err != nil {
			return nil, err
		}
		if ok, err := condition(old); err != nil {
			return nil, err
		} else if !ok {
			no := &refused{code: "ConditionalCheckFailedException", message: "The conditional request failed"}
			if w.ReturnValuesOnConditionCheckFailure == "ALL_OLD" && old != nil {
				no.more = map[string]any{"Item": old}
			}
			return nil, no
		}
	}
	next := w.Item
	switch kind {
	case "ConditionCheck":
		return func() {}, nil
	case "Delete":
		return func() { t.put(key, nil) }, nil
	case "Update":
		// An update of an absent item creates it, as in DynamoDB.
		if next = maps.Clone(old); next == nil {
			next = maps.Clone(w.Key)
		}
		if err := w.update(next); err != nil {
			return nil, err
		}
	}
	if sizeOf(next) > 400<<10 {
		return nil, invalid("Item size has exceeded the maximum allowed size")
	}
	if err := t.indexable(next); err != nil {
		return nil, err
	}
	return func() { t.put(key, next) }, nil
}

// indexable returns an error for an item that an index cannot hold.
func (t *table) indexable(next item) error {
	for _, x := range t.indexes {
		for _, k := range x.keys {
			if v := next[k]; v != nil && (v[t.types[k]] == nil || len(orderOf(v)) > 1024 || len(orderOf(v)) == 0) {
				return invalid("One or more parameter values were invalid: the key " + k + " of an index")
			}
		}
	}
	return nil
}

var placeholder = regexp.MustCompile(`[#:][A-Za-z0-9_]+`)

// used returns an error for placeholders that no expression uses, because the service refuses them.
func (w *write) used() error {
	all := placeholder.FindAllString(w.ConditionExpression+" "+w.UpdateExpression, -1)
	for name := range w.ExpressionAttributeNames {
		if !slices.Contains(all, name) {
			return invalid("Value provided in ExpressionAttributeNames unused in expressions: keys: {" + name + "}")
		}
	}
	for name := range w.ExpressionAttributeValues {
		if !slices.Contains(all, name) {
			return invalid("Value provided in ExpressionAttributeValues unused in expressions: keys: {" + name + "}")
		}
	}
	return nil
}

// update changes it as the expression of w says, which has the form "SET a = v, ... REMOVE b, ...".
func (w *write) update(it item) error {
	set, remove, _ := strings.Cut(w.UpdateExpression, "REMOVE ")
	for one := range strings.SplitSeq(strings.TrimPrefix(set, "SET "), ",") {
		if strings.TrimSpace(one) == "" {
			continue
		}
		name, value, ok := strings.Cut(one, "=")
		v, known := w.ExpressionAttributeValues[strings.TrimSpace(value)]
		if !ok || !known {
			return invalid("Invalid UpdateExpression: Syntax error: " + one)
		}
		it[w.attribute(name)] = v
	}
	for one := range strings.SplitSeq(remove, ",") {
		delete(it, w.attribute(one))
	}
	return nil
}

func (w *write) attribute(name string) string {
	name = strings.TrimSpace(name)
	if full, ok := w.ExpressionAttributeNames[name]; ok {
		return full
	}
	return name
}

// condition reports whether an item satisfies a condition expression. The item is nil if it does not exist.
type condition func(item) (bool, error)

// parser reads OR, AND, NOT, parentheses, comparisons, BETWEEN, attribute_exists and attribute_not_exists.
type parser struct {
	tokens []string
	w      *write
	err    error
}

var lexer = regexp.MustCompile(`\s*(<>|<=|>=|[=<>(),]|[#:]?[A-Za-z0-9_.]+)`)

func parseCondition(text string, w *write) (condition, error) {
	p := &parser{w: w}
	rest := text
	for strings.TrimSpace(rest) != "" {
		m := lexer.FindStringSubmatchIndex(rest)
		if m == nil || m[0] != 0 {
			return nil, invalid("Invalid expression: Syntax error; token: " + rest)
		}
		p.tokens = append(p.tokens, rest[m[2]:m[3]])
		rest = rest[m[1]:]
	}
	c := p.or()
	if p.err == nil && len(p.tokens) > 0 {
		p.err = invalid("Invalid expression: Syntax error; token: " + p.tokens[0])
	}
	return c, p.err
}

func (p *parser) next() (token string) {
	if len(p.tokens) == 0 {
		p.err = invalid("Invalid expression: Syntax error; token: <EOF>")
		return ""
	}
	token, p.tokens = p.tokens[0], p.tokens[1:]
	return token
}

func (p *parser) is(word string) bool {
	if len(p.tokens) > 0 && strings.EqualFold(p.tokens[0], word) {
		p.tokens = p.tokens[1:]
		return true
	}
	return false
}

func (p *parser) or() condition {
	all := []condition{p.and()}
	for p.err == nil && p.is("OR") {
		all = append(all, p.and())
	}
	return func(it item) (bool, error) { return anyOf(all, it, true) }
}

func (p *parser) and() condition {
	all := []condition{p.not()}
	for p.err == nil && p.is("AND") {
		all = append(all, p.not())
	}
	return func(it item) (bool, error) { return anyOf(all, it, false) }
}

// anyOf returns wanted if one of the conditions returns wanted. It does not evaluate the conditions after that one.
func anyOf(all []condition, it item, wanted bool) (bool, error) {
	for _, c := range all {
		if ok, err := c(it); err != nil || ok == wanted {
			return wanted && err == nil, err
		}
	}
	return !wanted, nil
}

func (p *parser) not() condition {
	if p.is("NOT") {
		inner := p.not()
		return func(it item) (bool, error) { ok, err := inner(it); return !ok, err }
	}
	if p.is("(") {
		inner := p.or()
		if !p.is(")") {
			p.err = invalid("Invalid expression: Syntax error; no )")
		}
		return inner
	}
	first := p.next()
	if exists := first == "attribute_exists"; exists || first == "attribute_not_exists" {
		p.is("(")
		name := p.w.attribute(p.next())
		if !p.is(")") {
			p.err = invalid("Invalid expression: Syntax error; no )")
		}
		return func(it item) (bool, error) { return (it[name] != nil) == exists, nil }
	}
	operator := p.next()
	low := p.next()
	if strings.EqualFold(operator, "BETWEEN") {
		if !p.is("AND") {
			p.err = invalid("Invalid expression: Syntax error; no AND")
		}
		high := p.next()
		return func(it item) (bool, error) {
			return anyOf([]condition{p.compare(first, ">=", low), p.compare(first, "<=", high)}, it, false)
		}
	}
	return p.compare(first, operator, low)
}

// compare compares two operands. A missing attribute is not equal to any value, and neither less nor more.
func (p *parser) compare(left, operator, right string) condition {
	value := func(it item, operand string) (map[string]any, error) {
		if strings.HasPrefix(operand, ":") {
			v, ok := p.w.ExpressionAttributeValues[operand]
			if !ok {
				return nil, invalid("An expression attribute value used in expression is not defined; attribute value: " + operand)
			}
			return v, nil
		}
		return it[p.w.attribute(operand)], nil
	}
	return func(it item) (bool, error) {
		a, err := value(it, left)
		if err != nil {
			return false, err
		}
		b, err := value(it, right)
		switch {
		case err != nil:
			return false, err
		case a == nil || b == nil:
			return operator == "<>" && (a == nil) != (b == nil), nil
		case operator == "=":
			return equal(a, b), nil
		case operator == "<>":
			return !equal(a, b), nil
		}
		c, ok := order(a, b)
		switch operator {
		case "<":
			return ok && c < 0, nil
		case "<=":
			return ok && c <= 0, nil
		case ">":
			return ok && c > 0, nil
		case ">=":
			return ok && c >= 0, nil
		}
		return false, invalid("Invalid expression: Syntax error; token: " + operator)
	}
}

func equal(a, b map[string]any) bool {
	if c, ok := order(a, b); ok {
		return c == 0
	}
	return reflect.DeepEqual(a, b)
}

// order compares two values of one type. ok is false if the values have no order.
func order(a, b map[string]any) (c int, ok bool) {
	if x, isNumber := a["N"].(string); isNumber {
		y, both := b["N"].(string)
		m, known := new(big.Rat).SetString(x)
		n, known2 := new(big.Rat).SetString(y)
		return cmpRat(m, n, both && known && known2), both && known && known2
	}
	for _, kind := range []string{"S", "B"} {
		if a[kind] != nil && b[kind] != nil {
			return bytes.Compare(orderOf(a), orderOf(b)), true
		}
	}
	return 0, false
}

func cmpRat(a, b *big.Rat, ok bool) int {
	if !ok {
		return 0
	}
	return a.Cmp(b)
}
