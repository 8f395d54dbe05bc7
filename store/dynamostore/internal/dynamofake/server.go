// Package dynamofake is a DynamoDB in one process, for tests. It serves the requests that dynamostore sends, over HTTP. Its transactions
// are atomic, recognise their tokens for ten minutes and have the limits of the service. It can refuse a request, and cut an answer
// before or after the effect. TestServersAgreeWithTheFake compares it with other servers.
package dynamofake

import (
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"sync"
	"time"
)

// Server is a DynamoDB.
type Server struct {
	URL string

	http   *httptest.Server
	mu     sync.Mutex
	tables map[string]*table
	tokens map[string]sent
	ahead  time.Duration
	counts map[string]int
	fault  func(operation string) Fault
	later  []func()
}

// sent is a transaction that was applied, kept so that a repeated request with its token is recognised.
type sent struct {
	at      time.Time
	request []any
}

// Fault says how a request fails.
type Fault int

const (
	None       Fault = iota
	CutBefore        // the connection ends, and the request has no effect
	CutAfter         // the request has its effect, and the connection ends
	CutAnswer        // the request has its effect, and half of the answer arrives
	Fails            // the service fails, and the request has no effect
	FailsAfter       // the service fails, and the request has its effect
	Throttled        // the request is refused
	Conflict         // a write fails because another transaction has the item
	Later            // the connection ends, and the request has its effect when Release is called
)

// New returns an empty server. tb's clean-up closes it.
func New(tb interface{ Cleanup(fn func()) }) *Server {
	s := &Server{tables: map[string]*table{}, tokens: map[string]sent{}, counts: map[string]int{}}
	s.http = httptest.NewServer(s)
	s.URL = s.http.URL
	tb.Cleanup(s.http.Close)
	return s
}

// Advance moves the clock.
func (s *Server) Advance(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ahead += d
}

// SetFault makes the server call fault for each later request. nil ends this.
func (s *Server) SetFault(fault func(operation string) Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault = fault
}

// Counts returns how many requests of each operation the server has received since the last call of Counts.
func (s *Server) Counts() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	counts := s.counts
	s.counts = map[string]int{}
	return counts
}

// Replicate makes a table look as if it were replicated to regions.
func (s *Server) Replicate(name string, strong bool, regions ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.tables[name]
	t.replicas, t.strong = regions, strong
}

// refused is an error of the service.
type refused struct {
	code, message string
	more          map[string]any
}

func (r *refused) Error() string { return r.code + ": " + r.message }

func invalid(message string) error { return &refused{code: "ValidationException", message: message} }

// ServeHTTP implements [http.Handler].
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	operation := r.Header.Get("X-Amz-Target")
	operation = operation[strings.LastIndex(operation, ".")+1:]
	status, answer, cut := s.serve(operation, body)
	s.mu.Lock()
	date := time.Now().Add(s.ahead)
	s.mu.Unlock()
	w.Header().Set("Date", date.UTC().Format(http.TimeFormat))
	w.Header().Set("Content-Type", "application/x-amz-json-1.0")
	switch cut {
	case None:
		w.WriteHeader(status)
		_, _ = w.Write(answer) //nolint:gosec // JSON, to a test
	case CutAnswer:
		w.Header().Set("Content-Length", "100000")
		_, _ = w.Write(answer[:len(answer)/2]) //nolint:gosec // JSON, to a test
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	default:
		panic(http.ErrAbortHandler)
	}
}

// serve returns the answer to a request, and how it is cut.
func (s *Server) serve(operation string, body []byte) (status int, answer []byte, cut Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counts[operation]++
	fault := None
	if s.fault != nil {
		fault = s.fault(operation)
	}
	var out any
	var err error
	switch writes := strings.Contains(operation, "Item") && !strings.Contains(operation, "Get"); {
	case fault == CutBefore:
		return 0, nil, CutBefore
	case fault == Later:
		s.later = append(s.later, func() { _, _ = s.do(operation, body) })
		return 0, nil, CutBefore
	case fault == Fails:
		err = &refused{code: "InternalServerError"}
	case fault == Throttled:
		err = &refused{code: "ThrottlingException"}
	case fault == Conflict && operation == "TransactWriteItems":
		err = canceled([]reason{{Code: "TransactionConflict"}})
	case fault == Conflict && writes:
		err = &refused{code: "TransactionConflictException"}
	default:
		out, err = s.do(operation, body)
	}
	if fault == FailsAfter {
		err = &refused{code: "InternalServerError"}
	}
	status = http.StatusOK
	var no *refused
	if errors.As(err, &no) {
		status = http.StatusBadRequest
		if no.code == "InternalServerError" {
			status = http.StatusInternalServerError
		}
		said := map[string]any{"__type": "com.amazonaws.dynamodb.v20120810#" + no.code, "message": no.message}
		maps.Copy(said, no.more)
		out = said
	}
	answer, err = json.Marshal(out)
	if err != nil {
		panic(err)
	}
	if fault == CutAfter || fault == CutAnswer {
		return status, answer, fault
	}
	return status, answer, None
}

// Release applies the requests that a [Later] fault has delayed.
func (s *Server) Release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, apply := range s.later {
		apply()
	}
	s.later = nil
}

// request has the fields of all requests.
type request struct {
	write

	TableName            string
	KeySchema            []struct{ AttributeName string }
	AttributeDefinitions []struct{ AttributeName, AttributeType string }

	GlobalSecondaryIndexes []struct {
		IndexName  string
		KeySchema  []struct{ AttributeName string }
		Projection struct{ NonKeyAttributes []string }
	}
	IndexName              string
	KeyConditionExpression string
	ExclusiveStartKey      item
	Limit                  int
	RequestItems           map[string]struct {
		Keys                     []item
		ProjectionExpression     string
		ExpressionAttributeNames map[string]string
	}
	TransactItems      []map[string]write
	ClientRequestToken string
}

// do applies a request and returns its answer.
func (s *Server) do(operation string, body []byte) (any, error) {
	var r request
	if err := json.Unmarshal(body, &r); err != nil { //nolint:musttag // the service's names
		return nil, &refused{code: "SerializationException", message: err.Error()}
	}
	r.write.TableName = r.TableName
	if operation == "CreateTable" {
		return s.create(&r)
	}
	if operation == "TransactWriteItems" {
		var all struct{ TransactItems []any }
		_ = json.Unmarshal(body, &all) //nolint:musttag // the service's names
		return s.transact(&r, all.TransactItems)
	}
	if operation == "BatchGetItem" {
		return s.batchGet(&r)
	}
	t := s.tables[r.TableName]
	if t == nil {
		return nil, &refused{code: "ResourceNotFoundException", message: "Requested resource not found"}
	}
	switch operation {
	case "DescribeTable":
		return map[string]any{"Table": t.describe()}, nil
	case "GetItem":
		key, err := t.key(r.Key)
		if err != nil {
			return nil, err
		}
		out := map[string]any{}
		if it := t.items[key]; it != nil {
			out["Item"] = it
		}
		return out, nil
	case "PutItem", "UpdateItem", "DeleteItem":
		apply, err := s.prepare(strings.TrimSuffix(operation, "Item"), &r.write)
		if err != nil {
			return nil, err
		}
		apply()
		return map[string]any{}, nil
	case "Query":
		return t.query(&r)
	}
	return nil, &refused{code: "UnknownOperationException", message: operation}
}

// transact applies all writes or none.
func (s *Server) transact(r *request, asked []any) (any, error) {
	now := time.Now().Add(s.ahead)
	if done, ok := s.tokens[r.ClientRequestToken]; ok && r.ClientRequestToken != "" && now.Sub(done.at) < 10*time.Minute {
		if !reflect.DeepEqual(done.request, asked) {
			return nil, &refused{code: "IdempotentParameterMismatchException"}
		}
		return map[string]any{}, nil
	}
	if len(r.TransactItems) > 100 {
		return nil, invalid("Member must have length less than or equal to 100")
	}
	size := 0
	seen := map[string]bool{}
	var reasons []reason
	var applies []func()
	failed := false
	for _, one := range r.TransactItems {
		for kind, w := range one {
			name, err := s.identity(kind, &w)
			if err == nil && seen[name] {
				return nil, invalid("Transaction request cannot include multiple operations on one item")
			}
			seen[name] = true
			apply := func() {}
			if err == nil {
				apply, err = s.prepare(kind, &w)
			}
			applies = append(applies, apply)
			size += sizeOf(w.Item) + sizeOf(w.ExpressionAttributeValues)
			why, no := reason{Code: "None"}, (*refused)(nil)
			if errors.As(err, &no) {
				if no.code != "ConditionalCheckFailedException" {
					return nil, err
				}
				why, failed = reason{Code: "ConditionalCheckFailed", Message: no.message, Item: no.more["Item"]}, true
			}
			reasons = append(reasons, why)
		}
	}
	switch {
	case size > 4<<20:
		return nil, invalid("Collection size has exceeded the maximum allowed size of 4 MB")
	case failed:
		return nil, canceled(reasons)
	}
	for _, apply := range applies {
		apply()
	}
	if r.ClientRequestToken != "" {
		s.tokens[r.ClientRequestToken] = sent{now, asked}
	}
	return map[string]any{}, nil
}

// reason says why one write of a transaction was cancelled.
type reason struct {
	Code    string
	Message string `json:",omitempty"` //nolint:tagliatelle // the name of the service
	Item    any    `json:",omitempty"` //nolint:tagliatelle // the name of the service
}

func canceled(reasons []reason) error {
	return &refused{
		code: "TransactionCanceledException", message: "Transaction cancelled, please refer cancellation reasons for specific reasons",
		more: map[string]any{"CancellationReasons": reasons},
	}
}
