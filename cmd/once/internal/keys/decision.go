package keys

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"time"

	"github.com/spf13/pflag"

	"github.com/oncelib/once"
	"github.com/oncelib/once/cmd/once/internal/cli"
	"github.com/oncelib/once/internal/base/words"
	"github.com/oncelib/once/lease"
	"github.com/oncelib/once/oncehttp"
	"github.com/oncelib/once/operate"
	"github.com/oncelib/once/store"
)

// decision is an operator's decision about an operation whose outcome is unknown.
type decision struct {
	call             string
	callResult       string
	result, failed   string
	status           int
	mediaType        string
	runAgain, voided bool
	retain           time.Duration
	by               operate.By
}

func (d *decision) Flags(fs *pflag.FlagSet) {
	fs.StringVar(&d.call, "call", "", "the `ID` of the call that you decide, as \"once keys show\" prints it (required)")
	fs.StringVar(&d.callResult, "call-result", "", "the call took effect, and its result is in this `FILE`: the operation continues after the call")
	fs.StringVar(&d.result, "result", "", "the call took effect, and the operation ends: a retry gets the result in this `FILE`")
	fs.StringVar(&d.failed, "failed", "", "the call did not take effect and never will, and the operation ends: a retry gets this `REASON`")
	fs.IntVar(&d.status, "status", 0, "`STATUS` of the HTTP response that a retry gets, if the operation belongs to an HTTP route")
	fs.StringVar(&d.mediaType, "type", "", "content `TYPE` of the HTTP response that a retry gets, such as text/html (default: application/json if FILE of --result is JSON)")
	fs.BoolVar(&d.runAgain, "run-again", false, "the next retry makes the call again: use this flag only if the called service executes each key only one time, or with --voided")
	fs.BoolVar(&d.voided, "voided", false, "with --run-again: the called service now refuses the key of the call, so the call is made again with a new key")
	fs.DurationVar(&d.retain, "retain", 0, "the `TIME` for which to keep the result or failure; after this time a retry executes the operation again (default: as long as the operation keeps a result)")
	cli.ByFlags(fs, &d.by)
}

// check returns an error if the flags contradict each other.
func (d *decision) check(try string) error {
	ways := 0
	for _, is := range []bool{d.callResult != "", d.result != "", d.failed != "", d.runAgain} {
		if is {
			ways++
		}
	}
	switch {
	case ways == 0:
		return cli.Usage("no flag gives the outcome of the call", try)
	case ways > 1:
		return cli.Usage("--call-result, --result, --failed and --run-again contradict each other", try)
	case d.call == "":
		return cli.Usage("--call is missing: the ID of the call whose outcome you know", "--call with the call id that once keys show KEY prints")
	case d.voided && !d.runAgain:
		return cli.Usage("--voided needs --run-again", try+" --voided")
	// The status belongs to the answer that ends the operation, and a result of the call does not end it.
	case d.status != 0 && d.callResult != "":
		return cli.Usage("--status is only for a decision that ends the operation, and --call-result does not end the operation", "--call-result alone, or --result with --status")
	case d.status != 0 && (d.runAgain || d.status < 200 || d.status > 599):
		return cli.Usage(fmt.Sprintf("--status %d is not an HTTP status", d.status), "--status 201 with --result, or --status 422 with --failed")
	case d.status != 0 && d.failed != "" && d.status < 400:
		return cli.Usage(fmt.Sprintf("--status %d is not the status of a failure", d.status), "--status 422 with --failed")
	case d.mediaType != "" && (d.status == 0 || d.result == ""):
		return cli.Usage("--type is only for an HTTP response that contains a result", "use --type together with --result and --status")
	case d.retain != 0 && (d.runAgain || d.callResult != ""):
		return cli.Usage("--retain applies only if the operation ends, but with this decision the operation continues", try)
	case d.retain < 0:
		return cli.Usage(fmt.Sprintf("--retain %v must be greater than zero", d.retain), "--retain 72h")
	}
	return cli.CheckBy(d.by, try)
}

// resolution is the decision in the form of package lease.
func (d *decision) resolution(op operate.Operation) (how lease.Resolution, err error) {
	how = lease.Resolution{CallID: d.call, RunAgain: d.runAgain, KeyVoided: d.voided, Retain: d.retain}
	switch {
	case d.callResult != "":
		how.CallValue, err = valueOf("--call-result", d.callResult, "use a file with JSON in the form of the result of the call")
	case d.result != "" && d.status != 0:
		var body []byte
		if body, err = fileOf("--result", d.result); err == nil {
			how.Answer = d.answer(body)
		}
	case d.result != "":
		how.Result, err = valueOf("--result", d.result, "use a file with JSON in the form of the result of the handler; or add --status if the file is the body of an HTTP response")
	case d.failed != "" && d.status != 0:
		how.Answer, err = d.problem(op)
	case d.failed != "":
		how.Failure = &once.Failure{Code: notApplied, Message: d.failed}
	}
	return how, err
}

// maxResult is the default of once.Config.MaxResult.
const maxResult = 16 << 20

// fileOf reads the file that is the value of a flag.
func fileOf(flag, name string) ([]byte, error) {
	body, err := os.ReadFile(name)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %w. Try: use a readable file", flag, err)
	case len(body) > maxResult:
		return nil, fmt.Errorf("%s: the result has %d bytes, and the limit is %d bytes. Try: use a smaller result, such as the name of a file", flag, len(body), maxResult)
	}
	return body, nil
}

// valueOf reads a JSON value from the file that is the value of a flag.
func valueOf(flag, name, try string) ([]byte, error) {
	body, err := fileOf(flag, name)
	switch {
	case err != nil:
		return nil, err
	case !json.Valid(body):
		return nil, fmt.Errorf("%s: the file is not JSON. Try: %s", flag, try)
	}
	return bytes.TrimSpace(body), nil
}

// notApplied is the code of a failure that an operator has found out.
const notApplied = "OPERATION.not_applied"

func (d *decision) answer(body []byte) *store.Result {
	mediaType := d.mediaType
	switch {
	case mediaType != "":
	case json.Valid(body):
		mediaType = "application/json"
	default:
		mediaType = http.DetectContentType(body)
	}
	return &store.Result{Status: d.status, Header: []store.Field{{Name: "Content-Type", Value: mediaType}}, Body: body}
}

// problem returns the HTTP answer of a failed operation.
func (d *decision) problem(op operate.Operation) (*store.Result, error) {
	body, err := json.Marshal(oncehttp.Problem{
		Title: "Not executed", Status: d.status, Detail: d.failed, Code: notApplied,
		SafeNewKey: op.RecoveryPoint == "", // if it has an earlier phase, the writes of this phase stay committed
	})
	if err != nil {
		return nil, err
	}
	return &store.Result{Status: d.status, Header: []store.Field{{Name: "Content-Type", Value: "application/problem+json"}}, Body: body}, nil
}

// The possible decisions, as once keys show prints them.
const (
	callResultWay = "  --call-result FILE   the call took effect and returned the JSON in FILE: the operation continues\n"
	resultWay     = "  --result FILE        the call took effect, and the operation ends here: a retry gets FILE\n"
	failedWay     = "  --failed REASON      the call did not take effect and never will, and the operation ends here\n"
	forwardWays   = "  --result FILE --status 201     the request took effect, and FILE is the body of the answer\n  --failed REASON --status 422  the request did not take effect and never will\n"
	runAgainWay   = "  --run-again          the operation makes the call again: see once keys resolve --help\n"
)

// called returns the name of a call, or of a phase that has committed by itself.
func called(call *lease.Begun) string {
	return words.Either(call.Tx, "the phase ", "the call ") + words.Shown(call.Phase)
}

// effect says what the decision does.
func (d *decision) effect(op operate.Operation, p lease.Progress) string {
	what, then := "the operation continues after its last saved phase", ""
	if p.Call != nil {
		then = "; the code after " + called(p.Call) + " does NOT run"
	}
	switch call := p.Call; {
	case d.callResult != "" && call != nil:
		what = called(call) + " has returned this value; the next retry or a completer continues the operation after this call"
	case d.result != "":
		what = "a retry gets this result" + then
	case d.failed != "":
		what = "a retry gets the answer that the operation has failed" + then
	case call != nil && call.Tx:
		what = "the operation executes " + called(call) + " again, and then the code after it"
	case call != nil && d.voided:
		what = "the operation makes " + called(call) + " again with a new key, and then runs the code after the call"
	case call != nil:
		what = fmt.Sprintf("the operation makes %s again with the same key %s, and then runs the code after the call", called(call), call.Key)
	case op.RecoveryPoint == "":
		what = "the key is new again: a retry executes the operation"
	}
	return fmt.Sprintf("%s, fence %d: %s", op.State, op.Fence, what)
}

// warning returns the condition under which the decision causes no damage.
func (d *decision) warning(op operate.Operation, call *lease.Begun) string {
	switch {
	case d.failed != "" && op.RecoveryPoint != "":
		return fmt.Sprintf("the writes of the operation up to %s stay committed.", words.Shown(op.RecoveryPoint))
	case !d.runAgain:
		return ""
	case call != nil && call.Tx:
		return "the writes of the phase happen twice if the phase has committed them already."
	case call != nil && d.voided:
		return fmt.Sprintf("the call may take effect twice, unless the service refuses the key %s from now on.", call.Key)
	case call != nil:
		return fmt.Sprintf("the call may take effect twice, unless the service executes each key only one time and still remembers the key %s. %s.", call.Key, repeatable(call))
	case op.RecoveryPoint == "":
		return "a retry of this operation will execute the operation again. If the operation took effect before, the operation takes effect twice."
	}
	return ""
}

// ofRoute matches the end of a scope that belongs to an HTTP route.
var ofRoute = regexp.MustCompile(` (GET|POST|PUT|PATCH|DELETE) [^ ]*/[^ ]*$`)

// lacksStatus reports whether the decision has a result without a status although the operation belongs to an HTTP route. Without a status, HTTP clients could never
// get the decided result.
func (d *decision) lacksStatus(op operate.Operation) bool {
	return (d.result != "" || d.failed != "") && d.status == 0 && ofRoute.MatchString(op.Scope)
}

// repeatable says what the program has declared about a second call with the same key.
func repeatable(call *lease.Begun) string {
	switch {
	case !call.Repeats:
		return "The program does not declare that the service executes each key only one time"
	case call.Until.IsZero():
		return "The program declares that the service remembers each key for ever"
	}
	return "The program declares that the service remembers this key until " + call.Until.Format(time.RFC3339)
}
