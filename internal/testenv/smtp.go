package testenv

import (
	"context"
	"errors"
	"net/textproto"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// SMTP is a private mail server, aiosmtpd, which stores every accepted mail as a file. Only one goroutine may use it.
type SMTP struct {
	who    identity
	dir    *directory
	port   int
	server *process // nil if the server is down
}

// StartSMTP starts a server without mails. ctx limits only the start.
func StartSMTP(ctx context.Context) (*SMTP, error) {
	who, err := serverIdentity()
	if err != nil {
		return nil, err
	}
	dir, err := newDirectory("once-smtp-", who)
	if err != nil {
		return nil, err
	}
	s := &SMTP{who: who, dir: dir}
	if err := errors.Join(os.Mkdir(s.dataDir(), 0o700), who.own(s.dataDir())); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	for range 10 { // as in StartPostgres
		if s.port, err = freePort(); err != nil {
			break
		}
		if err = s.launch(ctx); err == nil {
			return s, nil
		}
		if failed := (*startError)(nil); !errors.As(err, &failed) || !strings.Contains(failed.log, "address already in use") {
			break
		}
	}
	return nil, errors.Join(err, s.Close())
}

// Addr returns host:port. It stays the same after a restart.
func (s *SMTP) Addr() string { return address(s.port) }

// Mails returns the texts of all mails that the server has accepted, in no particular order.
func (s *SMTP) Mails() ([]string, error) {
	files, err := filepath.Glob(filepath.Join(s.dataDir(), "mails", "new", "*"))
	if err != nil {
		return nil, err
	}
	var mails []string
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		mails = append(mails, string(text))
	}
	return mails, nil
}

// Kill crashes the server with SIGKILL.
func (s *SMTP) Kill() error {
	if s.server == nil {
		return nil
	}
	err := s.server.crash()
	s.server = nil
	return err
}

// Restart starts the server again on the same port, with its mails. A server that still runs is killed first.
func (s *SMTP) Restart(ctx context.Context) error { return errors.Join(s.Kill(), s.launch(ctx)) }

// Close ends the server at once and removes its directory.
func (s *SMTP) Close() error { return errors.Join(s.Kill(), s.dir.remove()) }

func (s *SMTP) dataDir() string { return filepath.Join(s.dir.path, "data") }

func (s *SMTP) launch(ctx context.Context) error {
	path, err := Binary("aiosmtpd")
	if err != nil {
		return err
	}
	log, file, err := openLog(filepath.Join(s.dir.path, "smtp.log"))
	if err != nil {
		return err
	}
	defer file.Close()
	cmd := exec.Command(path, "-n", "-d", "-l", s.Addr(), "-c", "aiosmtpd.handlers.Mailbox", filepath.Join(s.dataDir(), "mails")) //nolint:noctx // it outlives ctx
	cmd.Dir = s.dataDir()
	cmd.Env = cleanEnv()
	cmd.Stdout, cmd.Stderr = file, file
	server, err := startProcess(cmd, s.who, syscall.SIGKILL, s.dir)
	if err != nil {
		return err
	}
	attempt := start{server: server, port: s.port, login: s.greets, log: log, bound: func() bool {
		return log.contains("listening on " + loopback + ":" + strconv.Itoa(s.port))
	}}
	if err := attempt.await(ctx); err != nil {
		return errors.Join(err, server.crash())
	}
	s.server = server
	return nil
}

// greets waits for the first line that the server sends.
func (s *SMTP) greets(context.Context) error {
	conn, err := textproto.Dial("tcp", s.Addr())
	if err != nil {
		return errNotReady
	}
	defer func() { _ = conn.Close() }()
	if _, _, err := conn.ReadResponse(220); err != nil {
		return errNotReady
	}
	return nil
}
