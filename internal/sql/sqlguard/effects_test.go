package sqlguard

import "testing"

func TestEffectsOfAStatement(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		text        string
		reads, sets bool
	}{
		{"select 1", true, false},
		{" -- a\n SELECT 1; select 2;", true, false},
		{"values (1)", true, false},
		{"explain query plan insert into t values (1)", true, false},
		{"with c as (select 1) select * from c", true, false},
		{"with c as (select 1) insert into t select * from c", false, false},
		{"with recursive c(n) as (select 1) delete from t where n in c", false, false},
		{"with c as (select 'insert') select \"update\" from c", true, false},
		{"select 1; insert into t values (1)", false, false},
		{"insert into t values ('select')", false, false},
		{"create trigger x after insert on t begin select 1; end", false, false},
		{"pragma defer_foreign_keys = 1", false, true},
		{"/* a */ PRAGMA x", false, true},
		{"select 1; pragma x", false, true},
		{"pragma x; select 1", false, true},
		{"select 'pragma x'", true, false},
		{"", true, false},
		{";;", true, false},
	} {
		if reads, sets := SQLiteEffects(tt.text); reads != tt.reads || sets != tt.sets {
			t.Errorf("SQLiteEffects(%q) = %v, %v", tt.text, reads, sets)
		}
	}
}

// FuzzEffectsHideNoPragma: a text never hides a PRAGMA behind another statement, nor does it make
// what follows seem to read.
func FuzzEffectsHideNoPragma(f *testing.F) {
	for _, text := range []string{"select 1", "with a as (select 1) select 2", "create trigger x begin select 1; end", "insert into t values ('a;b')", "--"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		SQLiteEffects(text) // ends
		if reads, sets := SQLiteEffects("pragma x; " + text); reads || !sets {
			t.Errorf("%q hides the PRAGMA before it", text)
		}
		if reads, _ := SQLiteEffects("delete from t; " + text); reads {
			t.Errorf("%q hides the DELETE before it", text)
		}
	})
}
