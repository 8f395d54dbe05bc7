package once_test

import (
	"regexp"
	"testing"
)

// oneWord is the name of a test that says an object and no claim, or a claim and no object: TestClock, TestURLs.
var oneWord = regexp.MustCompile(`\.((?:Test|Fuzz)(?:[A-Z][a-z0-9]*|[A-Z0-9]+s?))$`)

// oneWordIsEnough are names that readers know without their folder.
var oneWordIsEnough = map[string]bool{
	"TestAPI":         true, // what the module exports
	"TestConformance": true, // the suite of all stores, on one of them
	"TestSite":        true, // the site of the documentation
}

// TestNamesOfTestsSayAClaim: a reader of "go test -v", who sees nothing but names, learns what is tested: TestClockThatStepsBack, and
// not TestClock.
func TestNamesOfTestsSayAClaim(t *testing.T) {
	all, err := tiers()
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 2000 {
		t.Fatalf("vacuous: %d tests", len(all))
	}
	enough := map[string]bool{}
	for test := range all {
		name := oneWord.FindStringSubmatch(test)
		if name == nil {
			continue
		}
		if enough[name[1]] = true; !oneWordIsEnough[name[1]] {
			t.Errorf("%s is one word.\nTry: an object and a claim, as in TestClockThatStepsBack", test)
		}
	}
	for name := range oneWordIsEnough {
		if !enough[name] {
			t.Errorf("%s is allowed, and no test has this name", name)
		}
	}
	for name, want := range map[string]bool{".TestClock": true, "a.TestURLs": true, "a/b.TestJSON": true, "a.TestRFC6901": true, "a.TestURLsOfA401": false, "a.TestKeyInUse": false, "a.FuzzKey": true, "a.FuzzKeyIsRead": false} {
		if oneWord.MatchString(name) != want {
			t.Errorf("%s: one word is %v", name, !want)
		}
	}
}
