package dynamofake

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// item is an item with its values as they are sent, such as {"S": "text"}.
type item map[string]map[string]any

type table struct {
	name     string
	types    map[string]string
	keys     []string
	indexes  map[string]secondary
	items    map[string]item
	parts    map[string]map[string]item // by the first key of the table or an index
	replicas []string
	strong   bool
}

// secondary is a global secondary index. Unlike an index of DynamoDB, it never lags behind the table.
type secondary struct{ keys, projected []string }

func (s *Server) create(r *request) (any, error) {
	if s.tables[r.TableName] != nil {
		return nil, &refused{code: "ResourceInUseException", message: "Table already exists"}
	}
	t := &table{name: r.TableName, types: map[string]string{}, indexes: map[string]secondary{}, items: map[string]item{}, parts: map[string]map[string]item{}}
	for _, a := range r.AttributeDefinitions {
		t.types[a.AttributeName] = a.AttributeType
	}
	for _, k := range r.KeySchema {
		t.keys = append(t.keys, k.AttributeName)
	}
	for _, g := range r.GlobalSecondaryIndexes {
		x := secondary{projected: g.Projection.NonKeyAttributes}
		for _, k := range g.KeySchema {
			x.keys = append(x.keys, k.AttributeName)
		}
		t.indexes[g.IndexName] = x
	}
	s.tables[r.TableName] = t
	return map[string]any{"TableDescription": t.describe()}, nil
}

func (t *table) describe() any {
	schema := func(keys []string) (list []any) {
		for i, k := range keys {
			list = append(list, map[string]any{"AttributeName": k, "KeyType": []string{"HASH", "RANGE"}[i]})
		}
		return list
	}
	var indexes, replicas []any
	for name, x := range t.indexes {
		indexes = append(indexes, map[string]any{"IndexName": name, "IndexStatus": "ACTIVE", "KeySchema": schema(x.keys)})
	}
	for _, r := range t.replicas {
		replicas = append(replicas, map[string]any{"RegionName": r, "ReplicaStatus": "ACTIVE"})
	}
	d := map[string]any{"TableName": t.name, "TableStatus": "ACTIVE", "KeySchema": schema(t.keys), "GlobalSecondaryIndexes": indexes, "Replicas": replicas}
	if t.strong {
		d["MultiRegionConsistency"] = "STRONG"
	}
	return d
}

// put stores it in place of the item with its key. If it is nil, put deletes that item.
func (t *table) put(key string, it item) {
	files := func(it item, file func(part string)) {
		file(partOf("", it[t.keys[0]]))
		for name, x := range t.indexes {
			if it[x.keys[0]] != nil && it[x.keys[len(x.keys)-1]] != nil { // an index has only the items with all of its keys
				file(partOf(name, it[x.keys[0]]))
			}
		}
	}
	if old := t.items[key]; old != nil {
		files(old, func(part string) { delete(t.parts[part], key) })
	}
	if delete(t.items, key); it == nil {
		return
	}
	t.items[key] = it
	files(it, func(part string) {
		if t.parts[part] == nil {
			t.parts[part] = map[string]item{}
		}
		t.parts[part][key] = it
	})
}

func partOf(index string, v map[string]any) string { return index + "\x00" + string(orderOf(v)) }

// part returns the part that a key condition asks for: the one whose first key has the value in the condition.
func (r *request) part(index, key string) string {
	m := regexp.MustCompile(`([#A-Za-z0-9_]+)\s*=\s*(:[A-Za-z0-9_]+)`).FindAllStringSubmatch(r.KeyConditionExpression, -1)
	for _, m := range m {
		if r.attribute(m[1]) == key {
			return partOf(index, r.ExpressionAttributeValues[m[2]])
		}
	}
	return ""
}

// key returns the primary key of it. The item may have other attributes as well.
func (t *table) key(it item) (string, error) {
	var b strings.Builder
	for _, k := range t.keys {
		v, ok := it[k][t.types[k]].(string)
		if !ok || v == "" {
			return "", invalid("The provided key element does not match the schema")
		}
		if limit := 2048; len(v) > limit {
			return "", invalid("One or more parameter values were invalid: Size of hashkey has exceeded the maximum size limit of 2048 bytes")
		}
		b.WriteString(v + "\x00")
	}
	return b.String(), nil
}

func sizeOf(it item) (n int) {
	for name, v := range it {
		if !strings.HasPrefix(name, ":") {
			n += len(name)
		}
		for kind, v := range v {
			switch text, _ := v.(string); kind {
			case "B":
				n += base64.StdEncoding.DecodedLen(len(text)) - strings.Count(text, "=")
			case "N":
				n += len(text)/2 + 1
			case "S":
				n += len(text)
			default:
				b, _ := json.Marshal(v) //nolint:errchkjson // it was JSON
				n += len(b)
			}
		}
	}
	return n
}

// query lists the items under a key of the table or of an index, in order.
func (t *table) query(r *request) (any, error) {
	keys, projected := t.keys, []string(nil)
	if r.IndexName != "" {
		x, ok := t.indexes[r.IndexName]
		if !ok {
			return nil, invalid("The table does not have the specified index: " + r.IndexName)
		}
		keys, projected = x.keys, slices.Concat(t.keys, x.keys, x.projected)
	}
	condition, err := parseCondition(r.KeyConditionExpression, &r.write)
	if err != nil {
		return nil, err
	}
	var found []item
	for _, it := range t.parts[r.part(r.IndexName, keys[0])] {
		ok, err := condition(it)
		if err != nil {
			return nil, err
		}
		if ok {
			found = append(found, it)
		}
	}
	order := func(a, b item) int {
		for _, k := range append(slices.Clone(keys), t.keys...) {
			if c := bytes.Compare(orderOf(a[k]), orderOf(b[k])); c != 0 {
				return c
			}
		}
		return 0
	}
	slices.SortFunc(found, order)
	if r.ExclusiveStartKey != nil {
		found = slices.DeleteFunc(found, func(it item) bool { return order(it, r.ExclusiveStartKey) <= 0 })
	}
	out := map[string]any{}
	size := 0
	list := []item{}
	for i, it := range found {
		if size += sizeOf(it); i > 0 && size > 1<<20 || r.Limit > 0 && i == r.Limit {
			last := list[len(list)-1]
			out["LastEvaluatedKey"] = only(last, slices.Concat(keys, t.keys))
			break
		}
		if projected != nil {
			it = only(it, projected)
		}
		list = append(list, it)
	}
	out["Items"], out["Count"] = list, len(list)
	return out, nil
}

func only(it item, names []string) item {
	it = maps.Clone(it)
	maps.DeleteFunc(it, func(name string, _ map[string]any) bool { return !slices.Contains(names, name) })
	return it
}

// orderOf returns the bytes by which strings and binaries are ordered.
func orderOf(v map[string]any) []byte {
	if text, ok := v["B"].(string); ok {
		b, _ := base64.StdEncoding.DecodeString(text)
		return b
	}
	text, _ := v["S"].(string)
	return []byte(text)
}

// batchGet answers for at most 50 keys at a time, as if the other items were too large for one answer.
func (s *Server) batchGet(r *request) (any, error) {
	answers, todo := map[string][]item{}, map[string]any{}
	for name, ask := range r.RequestItems {
		t := s.tables[name]
		if t == nil {
			return nil, &refused{code: "ResourceNotFoundException", message: "Requested resource not found"}
		}
		if len(ask.Keys) > 100 {
			return nil, invalid("Too many items requested for the BatchGetItem call")
		}
		if n := 50; len(ask.Keys) > n {
			rest := map[string]any{"Keys": ask.Keys[n:], "ConsistentRead": true}
			if ask.ProjectionExpression != "" {
				rest["ProjectionExpression"], rest["ExpressionAttributeNames"] = ask.ProjectionExpression, ask.ExpressionAttributeNames
			}
			todo[name] = rest
			ask.Keys = ask.Keys[:n]
		}
		answers[name] = []item{}
		for _, k := range ask.Keys {
			key, err := t.key(k)
			if err != nil {
				return nil, err
			}
			it := t.items[key]
			if it == nil {
				continue
			}
			if ask.ProjectionExpression != "" {
				var names []string
				for p := range strings.SplitSeq(ask.ProjectionExpression, ",") {
					names = append(names, ask.ExpressionAttributeNames[strings.TrimSpace(p)])
				}
				it = only(it, names)
			}
			answers[name] = append(answers[name], it)
		}
	}
	return map[string]any{"Responses": answers, "UnprocessedKeys": todo}, nil
}
