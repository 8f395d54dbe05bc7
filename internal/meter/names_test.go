package meter_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/oncelib/once/gauge"
	"github.com/oncelib/once/internal/base/instrument"
)

// TestPagesNameMetricsThatExist: pages with queries to copy name only metrics, labels and rules that there are.
func TestPagesNameMetricsThatExist(t *testing.T) {
	known := map[string]string{} // the labels of each
	for _, in := range instrument.All {
		labels := strings.Join(in.Labels, " ")
		known[in.Name] = labels
		if in.Buckets != nil {
			known[in.Name+"_bucket"], known[in.Name+"_count"], known[in.Name+"_sum"] = labels+" le", labels, labels
		}
	}
	for _, in := range gauge.Instruments() {
		known[in.Name] = in.Label
	}
	rules, err := os.ReadFile("../../observability/prometheus/rules.yml")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`- record: ([\w:]+)`).FindAllSubmatch(rules, -1) {
		known[string(m[1])] = ""
	}
	name := regexp.MustCompile("([\\w:]*\\bonce_\\w+(?::\\w+)*)(?:\\{(\\w+)=|` with the label `(\\w+)=)?")
	for page, atLeast := range map[string]int{"autoscaling.md": 15, "cache.md": 5, "overload.md": 2} {
		text, err := os.ReadFile("../../docs/" + page)
		if err != nil {
			t.Fatal(err)
		}
		found := 0
		for _, m := range name.FindAllStringSubmatch(string(text), -1) {
			labels, is := known[m[1]]
			if found++; !is {
				t.Errorf("%s: there is no %s", page, m[1])
			}
			if label := m[2] + m[3]; label != "" && label != "job" && !strings.Contains(" "+labels+" ", " "+label+" ") {
				t.Errorf("%s: %s has no label %s", page, m[1], label)
			}
		}
		if found < atLeast {
			t.Errorf("%s: only %d names", page, found)
		}
	}
}
