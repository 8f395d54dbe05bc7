package testenv

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
)

// directory is the temporary home of one server. It disappears with the process that made it, even if that process is
// killed.
type directory struct {
	path    string
	leash   *os.File // the write end of the janitor's standard input
	janitor *process
}

// janitorScript waits for a word, or for the end of its input. A word means that the owner has cleaned up. The end without a
// word means that the owner has died. Then the script makes sure that the server is gone, and removes the directory.
// The parent-death signal should have ended the server already. The working directory proves that the process number
// still belongs to the server. The script retries, because a dying server may still write into the directory. The data
// may be on a [Disk].
const janitorScript = `
trap '' HUP INT QUIT TERM
read -r word
[ "$word" = done ] && exit 0
server=$(head -q -n 1 "$1"/data/*.pid 2>/dev/null)
alive() { [ -n "$server" ] && [ "$(readlink "/proc/$server/cwd")" = "$1/data" ]; }
if alive "$1"; then
	kill -QUIT "$server"
	for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do alive "$1" || break; sleep 0.5; done
	alive "$1" && kill -KILL "$server"
fi
umount -l -- "$1/data" 2>/dev/null
for i in 1 2 3 4 5 6 7 8 9 10; do
	rm -rf -- "$1" 2>/dev/null && exit 0
	sleep 0.5
done
`

// newDirectory makes a directory that belongs to who.
func newDirectory(prefix string, who identity) (*directory, error) {
	path, err := os.MkdirTemp(shortTempDir(), prefix)
	if err != nil {
		return nil, fmt.Errorf("testenv: temporary directory: %w", err)
	}
	// The janitor compares this path with the one that the kernel reports.
	if path, err = filepath.EvalSymlinks(path); err != nil {
		return nil, fmt.Errorf("testenv: temporary directory: %w", err)
	}
	if err := who.own(path); err != nil {
		return nil, errors.Join(fmt.Errorf("testenv: hand %s to %s: %w", path, who.name, err), os.RemoveAll(path))
	}
	input, leash, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(path))
	}
	defer input.Close()
	cmd := exec.Command("/bin/sh", "-c", janitorScript, "once-janitor", path) //nolint:noctx // it outlives every context
	cmd.Dir = "/"
	cmd.Stdin = input
	// The janitor must outlive this process, so it has no death signal.
	janitor, err := startProcess(cmd, identity{}, syscall.Signal(0), nil)
	if err != nil {
		return nil, errors.Join(err, leash.Close(), os.RemoveAll(path))
	}
	return &directory{path: path, leash: leash, janitor: janitor}, nil
}

// remove deletes the directory and ends the janitor.
func (d *directory) remove() error {
	err := os.RemoveAll(d.path)
	if err == nil {
		// If the janitor does not get the word, or is gone, it finds nothing to remove.
		_, err = d.leash.WriteString("done\n")
	}
	err = errors.Join(err, d.leash.Close())
	<-d.janitor.done
	return err
}

// shortTempDir returns a directory with a short path, even if TMPDIR is long: the path of a Unix socket has at most 107
// bytes.
func shortTempDir() string {
	const longest = 107 - len("/once-postgres-1234567890/socket/.s.PGSQL.12345")
	if dir := os.TempDir(); len(dir) <= longest {
		return dir
	}
	return "/tmp"
}
