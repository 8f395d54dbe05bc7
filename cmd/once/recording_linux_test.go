package main

import (
	"bytes"
	"flag"
	"fmt"
	"html"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"
	"unsafe"

	"github.com/oncelib/once/internal/testenv"
)

var update = flag.Bool("update", false, "record docs/demo.svg")

const recording = "../../docs/demo.svg"

// TestRecordingMatchesTheDemo: docs/demo.svg, which the README shows, has the lines that the demo prints on a terminal, but for numbers. -update records it.
func TestRecordingMatchesTheDemo(t *testing.T) {
	testenv.Prove(t)
	if *update {
		if err := os.WriteFile(recording, record(t).svg("go run ./cmd/once demo"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	picture, err := os.ReadFile(recording)
	if err != nil {
		t.Fatal(err)
	}
	var shown []string
	for _, l := range regexp.MustCompile(`(?m)^<text class="(?:end|ok)[^>]*>(.*)</text>$`).FindAllSubmatch(picture, -1) {
		shown = append(shown, shape(html.UnescapeString(string(l[1]))))
	}
	now := record(t, "--ops", "60", "--seed", "7")
	var printed []string
	for _, l := range now.lines {
		if l != "" {
			printed = append(printed, shape(l))
		}
	}
	if len(printed) < 15 || !slices.Equal(shown, printed) {
		t.Errorf("the recording shows\n%s\nand the demo prints\n%s\nTry: go test -run TestRecordingMatchesTheDemo . -update", strings.Join(shown, "\n"), strings.Join(printed, "\n"))
	}
	bars := regexp.MustCompile(`(?m)^<text class="bar"[^>]*>(.*)</text>$`).FindAllSubmatch(picture, -1)
	if len(bars) < 10 || shape(string(bars[len(bars)-1][1])) != shape(now.frames[len(now.frames)-1].bar) {
		t.Errorf("%d bars, and the last one printed is %q", len(bars), now.frames[len(now.frames)-1].bar)
	}
}

var (
	number = regexp.MustCompile(`\d[\d.]*`)
	gap    = regexp.MustCompile(` +`)
)

// shape is a line without its numbers, and without what depends on how long they are.
func shape(line string) string {
	line = strings.Trim(line, "█░ ")
	return gap.ReplaceAllString(number.ReplaceAllString(line, "N"), " ")
}

// film is what a run has shown on a terminal.
type film struct {
	frames []frame
	end    time.Duration // when the bar went away
	lines  []string      // what was printed then, up to the verdict
}

type frame struct {
	at  time.Duration
	bar string
}

// record runs the demo on a terminal of its own.
func record(t *testing.T, args ...string) film {
	t.Helper()
	master, slave := terminal(t)
	cmd := program(t, append([]string{"demo"}, args...)...)
	cmd.Stdout, cmd.Stderr = slave, slave
	start := time.Now()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		ended <- cmd.Wait()
		_ = slave.Close() // the last one: a read of the master then ends
	}()
	var f film
	var line []byte
	var rest []string
	returned := false
	buffer := make([]byte, 64<<10)
	for {
		n, err := master.Read(buffer)
		for _, c := range buffer[:n] {
			switch {
			case c == '\n':
				if rest = append(rest, string(line)); len(rest) == 1 {
					f.end = time.Since(start)
				}
				line, returned = line[:0], false
				continue
			case returned: // and no new line: what comes is drawn over it
				line = line[:0]
			}
			if returned = c == '\r'; !returned {
				line = append(line, c)
			}
		}
		if bar := strings.TrimSuffix(string(line), "\x1b[K"); bar != "" && len(rest) == 0 && utf8.ValidString(bar) {
			f.frames = append(f.frames, frame{time.Since(start), bar})
		}
		if err != nil { // EIO: the other side is closed
			break
		}
	}
	if err := <-ended; err != nil {
		t.Fatalf("%v\n%s", err, strings.Join(rest, "\n"))
	}
	if len(f.frames) == 0 {
		t.Fatalf("no bar is drawn:\n%s", strings.Join(rest, "\n"))
	}
	dir := regexp.MustCompile(`sqlite:\S*/once-demo-`)
	for _, l := range rest {
		l = strings.TrimPrefix(l, "\x1b[K")
		f.lines = append(f.lines, dir.ReplaceAllString(l, "sqlite:/tmp/once-demo-"))
		if strings.HasPrefix(l, "OK") {
			break // what to do next is longer than a line
		}
	}
	return f
}

// terminal is a pair of devices: what a program writes to the second one is read from the first.
func terminal(t *testing.T) (master, slave *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = master.Close() })
	var locked, name int32
	for request, value := range map[uintptr]*int32{syscall.TIOCSPTLCK: &locked, syscall.TIOCGPTN: &name} {
		if _, _, code := syscall.Syscall(syscall.SYS_IOCTL, master.Fd(), request, uintptr(unsafe.Pointer(value))); code != 0 {
			t.Fatal(code)
		}
	}
	if slave, err = os.OpenFile("/dev/pts/"+strconv.Itoa(int(name)), os.O_RDWR|syscall.O_NOCTTY, 0); err != nil {
		t.Fatal(err)
	}
	return master, slave
}

const (
	lineHeight = 19.0
	hold       = 14 * time.Second // for reading what was counted
	first      = 5 * time.Second  // of it come before the run: who looks for a moment sees how it ends
	filmStyle  = `text{font:13px ui-monospace,SFMono-Regular,Menlo,Consolas,'Liberation Mono',monospace;white-space:pre;fill:#d7dde1}.card{fill:#14191d;stroke:#333d44}.prompt{fill:#7f8f99}.command{fill:#fff;font-weight:600}.bar{fill:#7cc7ff}.ok{fill:#6fd3a4;font-weight:600}`
)

// svg is the film as an animation that begins again after a while. Where nothing is animated, it shows the end.
func (f film) svg(command string) []byte {
	frames := f.frames[:1:1]
	for _, fr := range f.frames { // a picture needs fewer
		if fr.at-frames[len(frames)-1].at >= 150*time.Millisecond {
			frames = append(frames, fr)
		}
	}
	whole := f.end + hold
	percent := func(at time.Duration) string {
		return strconv.FormatFloat(100*at.Seconds()/whole.Seconds(), 'f', 2, 64)
	}
	widest := 0
	for _, l := range f.lines {
		widest = max(widest, utf8.RuneCountInString(l))
	}
	width, height := 7.83*float64(widest)+44, lineHeight*float64(len(f.lines)+1)+34
	var b bytes.Buffer
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %.0f" width="%.0f" height="%.0f" role="img" aria-label="A recording of once demo">`+"\n<style>%s\n", width, height, width, height, filmStyle)
	b.WriteString("@keyframes film{")
	for i, fr := range frames {
		fmt.Fprintf(&b, "%s%%{transform:translateY(%gpx)}", percent(fr.at), -lineHeight*float64(i))
	}
	fmt.Fprintf(&b, "%s%%,100%%{transform:translateY(%gpx)}}\n", percent(f.end), -lineHeight*float64(len(frames)))
	fmt.Fprintf(&b, "@keyframes end{0%%{opacity:0}%s%%,100%%{opacity:1}}\n", percent(f.end))
	fmt.Fprintf(&b, ".film{transform:translateY(%gpx);animation:film %.2fs step-end infinite}.end,.ok{animation:end %.2fs step-end infinite}\n", -lineHeight*float64(len(frames)), whole.Seconds(), whole.Seconds())
	fmt.Fprintf(&b, ".film,.end,.ok{animation-delay:-%.2fs}\n", (whole - first).Seconds())
	b.WriteString("@media(prefers-reduced-motion:reduce){.film,.end,.ok{animation:none}}</style>\n")
	fmt.Fprintf(&b, `<rect class="card" x="1" y="1" width="%.0f" height="%.0f" rx="10"/>`+"\n"+`<text x="22" y="32"><tspan class="prompt">$ </tspan><tspan class="command">%s</tspan></text>`+"\n", width-2, height-2, html.EscapeString(command))
	fmt.Fprintf(&b, `<svg x="0" y="37" width="%.0f" height="%g"><g class="film">`+"\n", width, lineHeight)
	for i, fr := range frames {
		fmt.Fprintf(&b, `<text class="bar" x="22" y="%g">%s</text>`+"\n", lineHeight*float64(i)+14, html.EscapeString(fr.bar))
	}
	b.WriteString("</g></svg>\n")
	for i, l := range f.lines {
		if l == "" {
			continue
		}
		class := "end"
		if strings.HasPrefix(l, "OK") {
			class = "ok"
		}
		fmt.Fprintf(&b, `<text class="%s" x="22" y="%g">%s</text>`+"\n", class, 32+lineHeight*float64(i+1), html.EscapeString(l))
	}
	b.WriteString("</svg>\n")
	return b.Bytes()
}
