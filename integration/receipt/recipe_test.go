package receipt

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/oncelib/once/gateway/receipt"
	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/internal/testenv"
)

// recipe is the code of docs/receipt.md and docs/receipt-gateway.md in a language, as it stands there, under a service that uses it.
type recipe struct {
	name           string
	language, file string
	kind           string // of the database
	inTest         bool
	build          [][]string
	run            []string
}

var recipes = []recipe{
	{"python", "python", "recipe.py", harness.SQLite, true, nil, []string{"python3", "service.py"}},
	{"psycopg", "python", "recipe.py", harness.Postgres, false, nil, []string{systemPython, "service.py"}},
	{"node", "node", "recipe.js", harness.Postgres, false, [][]string{{"npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline"}}, []string{"node", "service.js"}},
	{"java", "java", "Receipts.java", harness.Postgres, false, [][]string{{"javac", "Receipts.java", "Service.java"}}, []string{"java", "-cp", ".:" + jdbc, "Service"}},
}

const (
	jdbc         = "/usr/share/java/postgresql.jar"
	systemPython = "/usr/bin/python3" // which finds the packages of the system
)

// need ends the test if what the recipe runs with is not installed.
func (r recipe) need(t *testing.T) {
	t.Helper()
	if r.name == "psycopg" {
		if err := exec.CommandContext(t.Context(), systemPython, "-c", "import psycopg").Run(); err != nil {
			testenv.Lacks(t, "the recipe for psycopg needs that. Try: apt-get install python3-psycopg")
		}
		return
	}
	if r.language != "java" {
		testenv.Need(t, r.run[0])
		return
	}
	_, err := exec.LookPath("javac")
	if _, noDriver := os.Stat(jdbc); err != nil || noDriver != nil {
		testenv.Lacks(t, "the recipe for Java needs javac and "+jdbc+". Try: apt-get install default-jdk-headless libpostgresql-jdbc-java")
	}
}

// code returns the blocks of a language in the pages.
func (r recipe) code(t *testing.T) []byte {
	t.Helper()
	page, err := os.ReadFile("../../docs/receipt.md")
	must(t, err)
	more, err := os.ReadFile("../../docs/receipt-gateway.md")
	must(t, err)
	page = append(page, more...)
	word := map[string]string{"node": "js"}[r.language]
	if word == "" {
		word = r.language
	}
	var code []byte
	for _, block := range regexp.MustCompile("(?ms)^```"+word+"\n(.*?)^```").FindAllSubmatch(page, -1) {
		code = append(code, block[1]...)
	}
	if r.name == "psycopg" { // what the page says is different there
		code = []byte(strings.NewReplacer("= ?", "= %s", "(?, ?, ?, ?)", "(%s, %s, %s, %s)", "values (?, 0", "values (%s, 0", "begin immediate", "begin", `json.loads(row[3] or "{}")`, "row[3] or {}").Replace(string(code)))
	}
	if len(code) < 500 {
		t.Fatalf("vacuous: the page has %d bytes of %s", len(code), word)
	}
	return code
}

// folder makes a folder in which the service can be started.
func (r recipe) folder(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	must(t, os.CopyFS(dir, os.DirFS("testdata/"+r.language)))
	must(t, os.WriteFile(filepath.Join(dir, r.file), r.code(t), 0o600))
	for _, command := range r.build {
		cmd := exec.CommandContext(t.Context(), command[0], command[1:]...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %v: %s", command, err, out)
		}
	}
	return dir
}

// serve starts the service on a database, and returns its address.
func (r recipe) serve(t *testing.T, dir string, s *service) (address string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), r.run[0], append(r.run[1:], r.dsn(t, s))...)
	cmd.Dir = dir
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	port, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		_ = cmd.Wait()
		t.Fatalf("%s: %v: %s", r.language, err, said.String())
	}
	return "http://127.0.0.1:" + strings.TrimSpace(port)
}

func (r recipe) dsn(t *testing.T, s *service) string {
	t.Helper()
	dsn, _, _ := strings.Cut(strings.TrimPrefix(s.DSN, "file:"), "?")
	switch r.name {
	case "python":
		return dsn
	case "node", "psycopg":
		return s.DSN
	}
	u, err := url.Parse(s.DSN)
	must(t, err)
	return "jdbc:postgresql://" + u.Host + u.Path + "?user=" + u.User.Username()
}

// onRecipes runs a test on the recipe of each language.
func onRecipes(t *testing.T, test func(t *testing.T, r recipe, dir string, s *service)) {
	t.Helper()
	for _, r := range recipes {
		t.Run(r.name, func(t *testing.T) {
			tier := testenv.InProve
			if r.inTest {
				tier = testenv.InTest
			}
			testenv.Cell(t, tier)
			t.Parallel()
			r.need(t)
			test(t, r, r.folder(t), newService(t, r.kind))
		})
	}
}

// reply is an answer of a service.
type reply struct {
	status int
	body   string
}

func post(t *testing.T, address, operation, fingerprint, die string) (reply, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, address+"/charges", nil)
	must(t, err)
	for name, value := range map[string]string{"Once-Operation": operation, "Once-Fingerprint": fingerprint, "Die": die} {
		req.Header.Set(name, value)
	}
	answer, err := (&http.Client{Timeout: 2 * time.Minute, Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
	if err != nil {
		return reply{}, err
	}
	defer func() { _ = answer.Body.Close() }()
	body, err := io.ReadAll(answer.Body)
	return reply{answer.StatusCode, string(body)}, err
}

// TestRecipesChargeOnce: with the code of the page, duplicates at once, and a service that is killed before and after its commit, charge once for each
// operation; every retry gets the same answer, and another request under the key 422.
func TestRecipesChargeOnce(t *testing.T) {
	testenv.Both(t)
	onRecipes(t, func(t *testing.T, r recipe, dir string, s *service) {
		address := r.serve(t, dir, s)
		replies := make([]reply, 8)
		var all sync.WaitGroup
		for i := range replies {
			all.Go(func() {
				var err error
				if replies[i], err = post(t, address, "at-once", "f", ""); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		for _, got := range replies {
			if got != replies[0] || got.status != 201 {
				t.Errorf("duplicates at once: %+v and %+v", got, replies[0])
			}
		}
		if got, err := post(t, address, "at-once", "another", ""); err != nil || got.status != 422 {
			t.Errorf("another request under the key: %+v, %v", got, err)
		}
		for _, when := range []string{"before", "after"} {
			if got, err := post(t, address, when, "f", when); err == nil {
				t.Fatalf("vacuous: killed %s the commit, and answered %+v", when, got)
			}
			if n, want := s.charges(t, when), map[string]int{"after": 1}[when]; n != want {
				t.Errorf("vacuous: killed %s the commit, and charged %d times", when, n)
			}
			address = r.serve(t, dir, s)
			first, err := post(t, address, when, "f", "")
			second, again := post(t, address, when, "f", "")
			if err = errors.Join(err, again); err != nil || first.status != 201 || first != second {
				t.Errorf("killed %s the commit: %+v, %+v, %v", when, first, second, err)
			}
		}
		for _, operation := range []string{"at-once", "before", "after"} {
			if n := s.charges(t, operation); n != 1 {
				t.Errorf("%s: charged %d times", operation, n)
			}
		}
	})
}

// endpoint is an endpoint that a gateway can ask for the receipts of a service.
func (s *service) endpoint(t *testing.T) string {
	t.Helper()
	mux := http.NewServeMux()
	mux.Handle("/once-receipt/", receipt.Handler(s.table(t, time.Minute)))
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server.URL
}

// TestEndpointsKeepTheContract: the endpoints in Go, and those of the page in Python and Node, keep the contract of testdata/contract.json; and the client
// of a gateway finds there what every implementation does.
func TestEndpointsKeepTheContract(t *testing.T) {
	testenv.Both(t)
	onRecipes(t, func(t *testing.T, r recipe, dir string, s *service) {
		if r.language == "java" { // it has no endpoint: this one is Go's
			endpoints(t, s, s.endpoint(t))
			return
		}
		endpoints(t, s, r.serve(t, dir, s))
	})
}

func endpoints(t *testing.T, s *service, address string) {
	t.Helper()
	text, err := os.ReadFile("../../gateway/receipt/testdata/contract.json")
	must(t, err)
	var vectors struct {
		Endpoint []struct {
			Name, Method, Operation string
			Status                  int
			Answer                  map[string]any
		}
	}
	must(t, json.Unmarshal(text, &vectors))
	s.exec(t, "insert into once_receipt (operation, fingerprint, status, header, body) values ('done-1', 'f1', 201, '{\"Content-Type\":\"application/json\"}', ?)", []byte(`{"id":"ch_1"}`))
	s.exec(t, "insert into once_receipt (operation, status) values ('done-2', 204)")
	s.exec(t, "insert into once_receipt (operation, status, body) values ('done-3', 200, ?)", []byte{0, 255})
	for _, v := range vectors.Endpoint {
		req, err := http.NewRequestWithContext(t.Context(), v.Method, address+"/once-receipt/"+v.Operation, nil)
		must(t, err)
		answer, err := http.DefaultClient.Do(req)
		must(t, err)
		body, err := io.ReadAll(answer.Body)
		must(t, errors.Join(err, answer.Body.Close()))
		if answer.StatusCode != v.Status {
			t.Errorf("%s: %d: %s", v.Name, answer.StatusCode, body)
			continue
		}
		if v.Answer == nil {
			continue
		}
		var got map[string]any
		must(t, json.Unmarshal(body, &got))
		for name, value := range got { // what is empty may be left out
			if list, isList := value.(map[string]any); value == nil || value == "" || value == 0.0 || isList && len(list) == 0 {
				delete(got, name)
			}
		}
		if fmt.Sprint(got["header"]) == "map[Content-Type:[application/json]]" { // a value may be a list
			got["header"] = map[string]any{"Content-Type": "application/json"}
		}
		if !reflect.DeepEqual(got, v.Answer) {
			t.Errorf("%s: %v, want %v", v.Name, got, v.Answer)
		}
	}
	if len(vectors.Endpoint) < 10 {
		t.Errorf("vacuous: %d vectors", len(vectors.Endpoint))
	}
	c, err := receipt.NewClient(address+"/once-receipt", receipt.ClientConfig{MaxAnswer: 1000})
	must(t, err)
	contract(t, s, c)
}
