package main

import (
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/oncelib/once/cmd/once/internal/killstorm"
	"github.com/oncelib/once/internal/testenv"
)

// checkModes compares a result, which is a contract with scripts. All numbers but that of the requests are decided: which order meets what, and
// how often.
func checkModes(t *testing.T, o output, want string) {
	t.Helper()
	if got := regexp.MustCompile(`"requests":\d+`).ReplaceAllString(o.stdout, `"requests":N`); got != want+"\n" {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestDemoGateway: services and gateways are killed. Nothing is charged twice with stop, and nothing is unknown with receipts.
func TestDemoGateway(t *testing.T) {
	testenv.Prove(t)
	t.Parallel()
	onEach(t, func(t *testing.T, db string) {
		testenv.Sample(t, 2)
		o := run(t, "demo", "gateway", "--ops", "16", "--json", "--db", db).want(t, 0)
		checkModes(t, o, `{"modes":[`+
			`{"mode":"bare","requests":N,"forwards":28,"double_effects":8,"unknown":0,"resolved_by_receipt":0,"ok":false},`+
			`{"mode":"retry","requests":N,"forwards":28,"double_effects":8,"unknown":0,"resolved_by_receipt":0,"ok":false},`+
			`{"mode":"stop","requests":N,"forwards":16,"double_effects":0,"unknown":12,"resolved_by_receipt":0,"ok":true},`+
			`{"mode":"check","requests":N,"forwards":20,"double_effects":0,"unknown":0,"resolved_by_receipt":12,"ok":true}],"ok":true}`)
	})
}

// TestDemoGatewayShort is a short storm.
func TestDemoGatewayShort(t *testing.T) {
	t.Parallel()
	o := run(t, "demo", "gateway", "--ops", strconv.Itoa(killstorm.OrderStep), "--json").want(t, 0)
	checkModes(t, o, `{"modes":[`+
		`{"mode":"bare","requests":N,"forwards":14,"double_effects":4,"unknown":0,"resolved_by_receipt":0,"ok":false},`+
		`{"mode":"retry","requests":N,"forwards":14,"double_effects":4,"unknown":0,"resolved_by_receipt":0,"ok":false},`+
		`{"mode":"stop","requests":N,"forwards":8,"double_effects":0,"unknown":6,"resolved_by_receipt":0,"ok":true},`+
		`{"mode":"check","requests":N,"forwards":10,"double_effects":0,"unknown":0,"resolved_by_receipt":6,"ok":true}],"ok":true}`)
}

// TestDemoGatewayInGo: without Python and Node it says so, and services in Go take their place. A stranger is told what was killed and charged, and what waits for a person.
func TestDemoGatewayInGo(t *testing.T) {
	testenv.Prove(t)
	t.Parallel()
	db := sqliteURL(t)
	o := runIn(t, "", []string{"PATH="}, "demo", "gateway", "--ops", "8", "--db", db).want(t, 0)
	for _, want := range []string{
		"services in Go (python3 is not installed) and Go (node is not installed)", "16 times a service was killed", "6 times a gateway",
		"double_effects", "\nOK: with stop nothing is charged twice",
	} {
		if !strings.Contains(o.stdout, want) {
			t.Errorf("no %q in %s", want, o.stdout)
		}
	}
	if !strings.Contains(o.stderr, "8/8 orders") {
		t.Error(o.stderr)
	}
	next := regexp.MustCompile(`once (keys list .*)`).FindStringSubmatch(o.stdout)
	if next == nil {
		t.Fatalf("no line to run next:\n%s", o.stdout)
	}
	if o := run(t, strings.Fields(next[1])...).want(t, 0); strings.Count(o.stdout, "unknown") != 6 {
		t.Error(o.stdout)
	}
}
