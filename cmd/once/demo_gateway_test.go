package main

import (
	"encoding/json"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/oncelib/once/cmd/once/internal/killstorm"
	"github.com/oncelib/once/internal/testenv"
)

// gatewayResult is the form of the result, which is a contract with scripts.
var gatewayResult = regexp.MustCompile(`^{"modes":\[({"mode":"(bare|retry|stop|check)","requests":\d+,"forwards":\d+,"double_effects":\d+,"unknown":\d+,"resolved_by_receipt":\d+,"ok":(true|false)},?){4}\],"ok":true}\n$`)

// stormOverGateways runs the demo and checks its result. A quarter of the orders meets each fate. More than that is unknown, or forwarded again, only if the
// machine is so busy that the lease of a gateway ends.
func stormOverGateways(t *testing.T, ops int, args ...string) {
	t.Helper()
	o := run(t, append([]string{"demo", "gateway", "--ops", strconv.Itoa(ops), "--json"}, args...)...).want(t, 0)
	var r killstorm.GatewaysReport
	if err := json.Unmarshal([]byte(o.stdout), &r); err != nil || !gatewayResult.MatchString(o.stdout) {
		t.Fatalf("%v: %s", err, o.stdout)
	}
	lost, half := 3*ops/4, ops/2
	bare, retry, stop, check := r.Modes[0], r.Modes[1], r.Modes[2], r.Modes[3]
	for what, ok := range map[string]bool{
		"bare":  bare.Mode == killstorm.ModeBare && bare.Forwards == ops+lost && bare.DoubleEffects == half && bare.Unknown+bare.ResolvedByReceipt == 0 && !bare.OK,
		"retry": retry.Mode == "retry" && retry.Forwards >= ops+lost && retry.DoubleEffects >= half && retry.Unknown+retry.ResolvedByReceipt == 0 && !retry.OK,
		"stop":  stop.Mode == "stop" && stop.Forwards == ops && stop.DoubleEffects == 0 && stop.Unknown >= lost && stop.ResolvedByReceipt == 0 && stop.OK,
		"check": check.Mode == "check" && check.Forwards >= ops+ops/4 && check.DoubleEffects+check.Unknown == 0 && check.ResolvedByReceipt == lost && check.OK,
	} {
		if !ok {
			t.Errorf("%s: %s", what, o.stdout)
		}
	}
}

// TestDemoGateway: services and gateways are killed. Nothing is charged twice with stop, and nothing is unknown with receipts.
func TestDemoGateway(t *testing.T) {
	testenv.Prove(t)
	t.Parallel()
	onEach(t, func(t *testing.T, db string) {
		testenv.Sample(t, 2)
		stormOverGateways(t, 16, "--db", db)
	})
}

// TestDemoGatewayShort is a short storm.
func TestDemoGatewayShort(t *testing.T) {
	t.Parallel()
	stormOverGateways(t, killstorm.OrderStep)
}

// TestDemoGatewayInGo: without Python and Node it says so, and services in Go take their place. A stranger is told what was killed and charged, and what waits for a person.
func TestDemoGatewayInGo(t *testing.T) {
	testenv.Prove(t)
	t.Parallel()
	db := sqliteURL(t)
	o := runIn(t, "", []string{"PATH="}, "demo", "gateway", "--ops", "8", "--db", db).want(t, 0)
	for _, want := range []string{
		"services in Go (python3 is not installed) and Go (node is not installed)", "16 times a service was killed", "6 times a gateway",
		"double_effects", "\nOK: with the protection stop, no order is charged twice",
	} {
		if !strings.Contains(o.stdout, want) {
			t.Errorf("no %q in %s", want, o.stdout)
		}
	}
	next := regexp.MustCompile(`once (keys list .*)`).FindStringSubmatch(o.stdout)
	if next == nil {
		t.Fatalf("no line to run next:\n%s", o.stdout)
	}
	if o := run(t, strings.Fields(next[1])...).want(t, 0); strings.Count(o.stdout, "unknown") < 6 {
		t.Error(o.stdout)
	}
}
