package console

import (
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/base/words"
	"github.com/oncelib/once/internal/owner"
	"github.com/oncelib/once/operate"
	"github.com/oncelib/once/saga"
	"github.com/oncelib/once/store"
)

// sagaActions returns the actions on sagas.
func sagaActions() []action {
	list := []action{
		{Name: "saga-retry", Title: "Retry a stuck saga", About: "Continues a stuck saga where it stopped, with new attempts. Use this when the cause is repaired."},
		{Name: "saga-skip", Title: "Skip the undo of a step", About: "Continues the undo of a stuck saga without the undo of one step. Use this when an operator has undone the step, or when the effect of the step should stay."},
		{Name: "saga-force", Title: "Decide the outcome of a call", About: "Records whether the call at which a saga is stuck took effect. Find this out at the called service first."},
		{Name: "saga-cancel", Title: "Cancel a saga", About: "Cancels a saga that has not passed its pivot (the step after which a saga can only go forward). The saga undoes all steps that took effect, and the starter of the saga receives the reason."},
		{Name: "saga-wake", Title: "Wake a saga", About: "Ends the wait of a saga: the saga continues now."},
	}
	for i := range list {
		do := saga.Action(strings.TrimPrefix(list[i].Name, "saga-"))
		list[i].Twin = "once saga " + string(do)
		list[i].prepare = func(q *request) (plan, error) { return q.planSaga(do) }
		list[i].do = func(q *request, by operate.By) (string, error) { return q.decideSaga(by, do) }
	}
	return append(list, action{
		"saga-forget", "Forget the stored data of a saga", "once saga forget", "Erases the outcome of a saga that has ended, and the inputs of its steps. If the saga is started again with the same key, the saga still executes no step.",
		(*request).planSagaForget, (*request).forgetSaga,
	})
}

// sagaRow is a line of the list.
type sagaRow struct {
	operate.Saga

	Link string
}

// sagasBody is a page of sagas.
type sagasBody struct {
	Rows          []sagaRow
	State, Name   string
	Since         string
	States        []string
	Tenant        string
	Tenants       []string // the tenants that the user can choose; nil means any tenant
	Filtered, Cut bool
	Most          int
	Next          string
}

var sagaStates = []string{"", saga.StateStuck, saga.StateWaiting, saga.StateRunning, saga.StateCompleted, saga.StateCompensated}

func (q *request) sagas() error {
	form := q.URL.Query()
	tenant, err := q.ofTenant()
	if err != nil {
		return err
	}
	after, ok := q.seal.open(sealedCursor, form.Get("after"))
	body := sagasBody{
		State: form.Get("state"), Name: form.Get("name"), Since: form.Get("since"), States: sagaStates, Tenant: tenant, Tenants: q.user.Tenants, Filtered: len(form) > 0, Most: mostRead,
	}
	if !ok || !slices.Contains(sagaStates, body.State) {
		return errNotFound
	}
	f := operate.SagaFilter{State: body.State, Definition: body.Name, Most: mostRead, Window: operate.Window{After: after}}
	if tenant != "" {
		f.Tenant = &tenant
	}
	if f.Since, err = q.since(body.Since); err != nil {
		return err
	}
	p, err := q.Operate.Sagas.List(q.ctx, f)
	if err != nil {
		return err
	}
	for _, s := range p.Items {
		if q.seesTenant(s.Tenant) {
			body.Rows = append(body.Rows, sagaRow{s, q.sagaLink(s.ID())})
		}
	}
	if body.Cut = p.Cut; p.Next != "" {
		body.Next = link("sagas", "state", body.State, "name", body.Name, "since", body.Since, "tenant", tenant, "after", q.seal.seal(sealedCursor, p.Next))
	}
	return q.render("sagas", "Sagas", body)
}

// since returns the time at the beginning of a duration that ends now. For "" it returns a zero time.
func (q *request) since(s string) (time.Time, error) {
	if s == "" {
		return time.Time{}, nil
	}
	ago, err := time.ParseDuration(s)
	if err != nil || ago < 0 {
		return time.Time{}, &refusal{"the field Since is not a duration. Try: a duration such as 24h"}
	}
	now, err := q.Operate.Keys.Now(q.ctx)
	return now.Add(-ago), err
}

// sagaLink returns the link of a saga, in which the key of the saga is encrypted.
func (q *request) sagaLink(id saga.ID) string { return link("saga", "id", q.sagaID(id)) }

func (q *request) sagaID(id saga.ID) string {
	return q.seal.operation(store.ID{Scope: string(owner.Saga) + id.Tenant, Key: id.Key})
}

// theSaga returns the saga that the form names, if the user may see it. The result unread is the reason why its inputs and results cannot be
// decrypted.
func (q *request) theSaga() (v operate.SagaView, unread, err error) {
	of, ok := q.seal.openOperation(q.FormValue("id"))
	tenant, is := strings.CutPrefix(of.Scope, string(owner.Saga))
	if !ok || !is || !q.seesTenant(tenant) {
		return v, nil, errNotFound
	}
	v, err = q.Operate.Sagas.Show(q.ctx, saga.ID{Tenant: tenant, Key: of.Key})
	switch {
	case errors.Is(err, saga.ErrNothing):
		return v, nil, errNotFound
	// The saga was read. Only its inputs and results could not be decrypted.
	case err != nil && v.Progress.Steps != nil:
		return v, err, nil
	}
	return v, nil, err
}

// sagaBody is one saga.
type sagaBody struct {
	operate.SagaView

	ID        string // the ID in its link
	Steps     []stepRow
	Choices   []choice
	Forgets   bool   // its stored data can be erased
	Operation string // the link of its record
	Unread    string // the reason why inputs and results are not shown
}

// stepRow is a step of a saga.
type stepRow struct {
	saga.StepStatus

	Choices []choice
}

// choice is an action that is possible in the current state.
type choice struct{ Label, Link string }

var choiceLabels = map[saga.Action]string{
	saga.ActionRetry: "Retry…", saga.ActionSkip: "Skip its undo…", saga.ActionForce: "Decide its outcome…", saga.ActionCancel: "Cancel…", saga.ActionWake: "Wake…",
}

func (q *request) saga() error {
	v, unread, err := q.theSaga()
	if err != nil {
		return err
	}
	body := sagaBody{SagaView: v, ID: q.sagaID(v.ID()), Forgets: v.State == saga.StateCompleted || v.State == saga.StateCompensated}
	switch {
	case !q.seen:
		body.SagaView = v.WithoutBody()
	case unread != nil:
		body.Unread = unread.Error()
	case v.Progress.Sealed:
		body.Unread = "The data is encrypted, and the console does not have the encryption key."
	}
	for _, s := range body.Progress.Steps {
		body.Steps = append(body.Steps, stepRow{StepStatus: s})
	}
	for _, d := range v.Choices() {
		c := choice{choiceLabels[d.Action], link("do", "action", "saga-"+string(d.Action), "id", body.ID, "step", q.seal.seal(sealedStep, d.Step))}
		if d.Step == "" {
			body.Choices = append(body.Choices, c)
		}
		for i := range body.Steps {
			if body.Steps[i].Step == d.Step {
				body.Steps[i].Choices = append(body.Steps[i].Choices, c)
			}
		}
	}
	// The scope of a saga does not begin with its tenant. So a user with Tenants cannot open its operation.
	if q.user.Tenants == nil {
		body.Operation = link("operation", "id", body.ID)
	}
	return q.render("saga", "Saga", body)
}

// showSaga shows the keys of a saga and of its calls, and the inputs and results of its steps, after it has written this read to the audit.
func (q *request) showSaga() error {
	v, _, err := q.theSaga()
	if err != nil {
		return err
	}
	if err := q.looked(operate.Access{Scope: string(owner.Saga) + v.Tenant, Key: v.Key, Detail: "keys, inputs and results of a saga, on the console"}); err != nil {
		return err
	}
	return q.saga()
}

// sealedStep is the kind of encrypted names of steps. The name of a step may contain a key.
const sealedStep = "step"

// onSaga returns the saga that the form names, and the beginning of a plan for it.
func (q *request) onSaga() (v operate.SagaView, p plan, err error) {
	if v, _, err = q.theSaga(); err != nil {
		return v, p, err
	}
	id := q.FormValue("id")
	p = plan{Flags: []string{"KEY"}, Values: [][2]string{{"id", id}}, Back: link("saga", "id", id)}
	if v.Tenant != "" {
		p.Flags = append(p.Flags, "--tenant", quoted(v.Tenant))
	}
	return v, p, nil
}

func (q *request) planSaga(do saga.Action) (plan, error) {
	v, p, err := q.onSaga()
	if err != nil {
		return p, err
	}
	step, ok := q.seal.open(sealedStep, q.FormValue("step"))
	d := saga.Decision{Action: do, Step: step, Preview: true}
	switch {
	case !ok:
		return p, errNotFound
	case do == saga.ActionForce: // the form asks the operator for the outcome of the call
		i := slices.IndexFunc(v.Progress.Steps, func(s saga.StepStatus) bool { return s.Step == step && s.State == "calling" })
		if v.State != saga.StateStuck || i < 0 {
			return p, &refusal{"the saga is no longer stuck at this call, so nothing was decided"}
		}
		p.What = "The saga continues with the decided outcome of the call " + words.Shown(step) + ": " + asked(v.Progress.Steps[i])
		p.Fields, p.Call = "force", step
		p.Flags = append(p.Flags, "--step", quoted(step), "--value", "JSON")
	default:
		said, err := q.Operate.Sagas.Decide(q.ctx, operate.By{Who: q.user.Name, Reason: "preview"}, v.ID(), d)
		if err != nil {
			return p, withoutKey(err)
		}
		p.What = capital(said) + "."
		if step != "" {
			p.Flags = append(p.Flags, "--step", quoted(step))
		}
	}
	p.Button = sagaButtons[do]
	p.Values = append(p.Values, [2]string{"step", q.FormValue("step")}, [2]string{"fence", strconv.FormatInt(v.Fence, 10)})
	return p, nil
}

// withoutKey returns the error of a decision without the key of the saga, because keys are hidden.
func withoutKey(err error) error {
	var of *once.Error
	if errors.As(err, &of) && of.Err != nil {
		return of.Err
	}
	return err
}

var sagaButtons = map[saga.Action]string{
	saga.ActionRetry: "Retry 1 saga", saga.ActionSkip: "Skip 1 undo", saga.ActionForce: "Decide 1 call", saga.ActionCancel: "Cancel 1 saga", saga.ActionWake: "Wake 1 saga",
}

// asked returns a text that says how the outcome of a running call can be found out.
func asked(s saga.StepStatus) string {
	var says []string
	if s.Repeats {
		says = append(says, "the call can be made again with its key")
	}
	if s.Checked {
		says = append(says, "the program can ask the service for the outcome of the call")
	}
	if s.Cancels {
		says = append(says, "the service can undo the call by its key")
	}
	if len(says) == 0 {
		return "only an operator can find out whether the call took effect. Ask the service about the key of the call, which the page of the saga shows."
	}
	return strings.Join(says, ", and ") + "; to do that, retry the saga. Or ask the service about the key of the call, which the page of the saga shows."
}

func (q *request) decideSaga(by operate.By, do saga.Action) (string, error) {
	v, p, err := q.onSaga()
	if err != nil {
		return "", err
	}
	step, ok := q.seal.open(sealedStep, q.FormValue("step"))
	fence, err := strconv.ParseInt(q.FormValue("fence"), 10, 64)
	if !ok || err != nil {
		return "", errNotFound
	}
	d := saga.Decision{Action: do, Step: step}
	if do != saga.ActionCancel && do != saga.ActionWake { // these two are allowed while a saga runs, and a running saga may change its fence between page and form
		d.Fence = fence
	}
	if do == saga.ActionForce {
		switch value := strings.TrimSpace(q.FormValue("value")); {
		case q.FormValue("way") == "not-made":
		case q.FormValue("way") != "happened":
			return "", &refusal{"no outcome of the call is chosen. Try: choose one of the two outcomes"}
		case !json.Valid([]byte(value)):
			return "", &refusal{"the value of the call is not JSON"}
		default:
			d.Value = json.RawMessage(value)
		}
	}
	_, err = q.Operate.Sagas.Decide(q.ctx, by, v.ID(), d)
	return p.Back, withoutKey(err)
}

func (q *request) planSagaForget() (plan, error) {
	v, p, err := q.onSaga()
	if err != nil {
		return p, err
	}
	said, err := q.Operate.Sagas.Forget(q.ctx, operate.By{Who: q.user.Name, Reason: "preview"}, v.ID(), true)
	p.What, p.Button = capital(said)+".", "Forget the stored data of 1 saga"
	return p, err
}

func (q *request) forgetSaga(by operate.By) (string, error) {
	v, p, err := q.onSaga()
	if err != nil {
		return "", err
	}
	_, err = q.Operate.Sagas.Forget(q.ctx, by, v.ID(), false)
	return p.Back, err
}
