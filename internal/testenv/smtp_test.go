package testenv

import (
	"context"
	"net/smtp"
	"os"
	"strings"
	"testing"
	"time"
)

// TestSMTPKeepsMails: also over a crash.
func TestSMTPKeepsMails(t *testing.T) {
	t.Parallel()
	Need(t, "aiosmtpd")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	s, err := StartSMTP(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	if err := smtp.SendMail(s.Addr(), nil, "a@mail.example", []string{"b@mail.example"}, []byte("Subject: s\r\n\r\nthe text\r\n")); err != nil {
		t.Fatal(err)
	}
	if err := s.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := s.greets(ctx); err == nil {
		t.Error("a killed server answers")
	}
	if err := s.Restart(ctx); err != nil {
		t.Fatal(err)
	}
	if mails, err := s.Mails(); err != nil || len(mails) != 1 || !strings.Contains(mails[0], "the text") {
		t.Errorf("%q, %v", mails, err)
	}
	home := s.dir.path
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(home); !os.IsNotExist(err) {
		t.Errorf("%s is still there: %v", home, err)
	}
}
