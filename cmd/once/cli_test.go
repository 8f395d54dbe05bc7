package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestExitCodes: a script can tell a failure from a wrong command line, from nothing found and from a database
// that is not reached; a preview is no failure. docs/cli.md lists the codes.
func TestExitCodes(t *testing.T) {
	t.Parallel()
	url := sqliteURL(t)
	db := open(t, url)
	db.do(t, "s", "k")
	for _, c := range []struct {
		code       int
		name, args string
	}{
		{0, "", "keys show k"},
		{0, "", "keys list --scope empty"},
		{0, "", "keys forget k --scope s --reason asked"}, // a preview
		{1, "failed", "keys resolve k --scope s --call c --reason found --failed x"},
		{2, "usage", "keys show k --attempts many"},
		{2, "usage", "keys show k --colour blue"},
		{3, "", "keys show nobody"}, // which it says on standard output
		{3, "nothing_found", "keys forget nobody --scope s --reason asked --yes"},
		{3, "nothing_found", "deadletter show lost"},
		{4, "unreachable", "keys show k --db postgres://127.0.0.1:1/none"},
		{4, "unreachable", "keys show k --db sqlite:none.db"},
	} {
		args := strings.Fields(c.args)
		if !strings.Contains(c.args, "--db") {
			args = append(args, "--db", url)
		}
		run(t, args...).want(t, c.code)
		if strings.HasPrefix(c.args, "keys forget") {
			continue // it prints what it does as text
		}
		o := run(t, append(args, "-o", "json")...).want(t, c.code)
		var says struct {
			Error struct{ Code, Message, Try string }
		}
		if c.name == "" {
			continue
		}
		if err := json.Unmarshal([]byte(o.stderr), &says); err != nil || says.Error.Code != c.name || says.Error.Message == "" || says.Error.Try == "" || strings.Count(o.stderr, "\n") != 1 {
			t.Errorf("once %s: %v, %s", c.args, err, o.stderr)
		}
	}
}

// TestSettingsByPrecedence: a flag on the command line wins over the environment, that over the file, and the file over the default. An unknown
// name in the file is refused.
func TestSettingsByPrecedence(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{"flag", "once_db", "database_url", "file"} {
		path := filepath.Join(dir, name+".db")
		open(t, "sqlite:"+path).do(t, "of "+name, "k")
	}
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, "once.yaml"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	once := func(code int, env []string, args ...string) output {
		t.Helper()
		return runIn(t, dir, env, args...).want(t, code)
	}
	const file = "db: file.db\noutput: json\n"
	write(file)
	var env []string
	for _, c := range []struct{ variable, flag, want string }{
		{"", "", "file"},
		{"DATABASE_URL=database_url.db", "", "database_url"},
		{"ONCE_DB=sqlite:once_db.db", "", "once_db"},
		{"", "file:flag.db?_pragma=journal_mode(WAL)", "flag"},
	} {
		if c.variable != "" {
			env = append(env, c.variable)
		}
		args := []string{"keys", "show", "k"}
		if c.flag != "" {
			args = append(args, "--db", c.flag)
		}
		if o := once(0, env, args...); !strings.Contains(o.stdout, `"scope": "of `+c.want+`"`) {
			t.Errorf("%v, %q: %s", env, c.flag, o.stdout)
		}
	}
	if o := once(0, env, "keys", "show", "k", "-o", "table"); strings.Contains(o.stdout, "{") {
		t.Errorf("%s", o.stdout)
	}
	if o := once(2, []string{"ONCE_CONFIG=none.yaml"}, "keys", "list"); !strings.Contains(o.stderr, "none.yaml") {
		t.Errorf("%s", o.stderr)
	}
	for text, says := range map[string]string{"dbb: file.db\n": "dbb", "db: [a, b]\n": "once.yaml", "output: xml\n": `"xml"`, "timeout: soon\n": "soon"} {
		write(text)
		if o := once(2, []string{"ONCE_DB=once_db.db"}, "keys", "list"); !strings.Contains(o.stderr, says) || !strings.Contains(o.stderr, "Try: ") {
			t.Errorf("%q: %s", text, o.stderr)
		}
	}
	// A storm must never find the database of a service by itself.
	write(file)
	if o := once(2, []string{"ONCE_DB=postgres://127.0.0.1:1/none"}, "demo", "--ops", "0"); strings.Contains(o.stderr, "postgres") {
		t.Errorf("%s", o.stderr)
	}
	if o := once(0, []string{"ONCE_DB=postgres://127.0.0.1:1/none"}, "demo", "--ops", "1", "--json"); !strings.Contains(o.stdout, `"ok":true`) {
		t.Errorf("%s%s", o.stdout, o.stderr)
	}
}

// TestMissingDatabaseBesideAGateway: where --db is missing and once.yaml is that of a gateway, the advice is its store. A password is not repeated.
func TestMissingDatabaseBesideAGateway(t *testing.T) {
	t.Parallel()
	const none = "--db sqlite:PATH, "
	for part, try := range map[string]string{
		"gateway: {upstream: http://a, store: 'sqlite:my keys.db'}": "--db 'sqlite:my keys.db', the value of \"store\" in the section \"gateway\" of the file once.yaml\n",
		"gateway: {upstream: http://a}":                             "--db sqlite:once-gateway.db, the value of \"store\" ",
		"gateway: {store: 'postgres://ada:secret@127.0.0.1/x'}":     "--db URL, the value of \"store\" ",
		"gateway: {store: receipt}":                                 none,
		"gateway: {store: 'oracle://x'}":                            none,
		"by: ada":                                                   none,
	} {
		dir := t.TempDir()
		writeConfig(t, filepath.Join(dir, "once.yaml"), part)
		if o := runIn(t, dir, nil, "keys", "list").want(t, 2); !strings.HasPrefix(o.stderr, "once: --db is missing") || !strings.Contains(o.stderr, "\nTry: "+try) || strings.Contains(o.stderr, "secret") {
			t.Errorf("%s: %s", part, o.stderr)
		}
	}
}

// TestCompletionInEachShell: a shell completes nouns, verbs, flags and the values of -o.
func TestCompletionInEachShell(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{"ke": "keys", "keys sh": "show", "keys show --sco": "--scope", "keys list -o ": "jsonl", "demo ": "serve"} {
		words := strings.Split(line, " ")
		o := run(t, append([]string{"__complete"}, words...)...).want(t, 0)
		if !strings.Contains(o.stdout, want) || strings.Contains(o.stdout, "nats") {
			t.Errorf("once %s: %s", line, o.stdout)
		}
	}
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		if o := run(t, "completion", shell).want(t, 0); len(o.stdout) < 1000 {
			t.Errorf("%s: %s", shell, o.stdout)
		}
	}
}

// TestEmptyLists: a list with nothing in it says so, and its JSON has an empty list.
func TestEmptyLists(t *testing.T) {
	t.Parallel()
	url := sqliteURL(t)
	open(t, url)
	for _, line := range []string{"keys list --scope none", "outbox list", "inbox list", "deadletter list", "deadletter list --letters", "audit list --scope other", "journal list"} {
		args := append(strings.Fields(line), "--db", url)
		if o := run(t, args...).want(t, 0); o.stdout != "" || !strings.HasPrefix(o.stderr, "There are no ") {
			t.Errorf("once %s:\n%s%s", line, o.stdout, o.stderr)
		}
		if o := run(t, append(args, "-o", "json")...).want(t, 0); !strings.Contains(o.stdout, "[]") {
			t.Errorf("once %s -o json:\n%s%s", line, o.stdout, o.stderr)
		}
		if o := run(t, append(args, "-o", "jsonl")...).want(t, 0); o.stdout != "" {
			t.Errorf("once %s -o jsonl:\n%s%s", line, o.stdout, o.stderr)
		}
	}
}

// TestSecretsOfFlagsAreNotRepeated: a header that is written in a wrong way may be a secret.
func TestSecretsOfFlagsAreNotRepeated(t *testing.T) {
	t.Parallel()
	o := run(t, "journal", "resume", "--file", "x", "--header", "Bearer secret").want(t, 2)
	if strings.Contains(o.stderr, "secret") || !strings.Contains(o.stderr, "NAME: VALUE") {
		t.Errorf("%s", o.stderr)
	}
}
