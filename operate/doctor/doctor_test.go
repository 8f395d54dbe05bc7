package doctor

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/oncelib/once/store/sqlplane"
)

// TestDoctorJudges: what a test cannot set on a real database.
func TestDoctorJudges(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for _, c := range []struct {
		name string
		f    Finding
		want Verdict
		says string
	}{
		{"an old server", postgresVersion(130_014), VerdictWarn, "13.14"},
		{"a supported server", postgresVersion(150_018), VerdictOK, "15.18"},
		{"equal clocks", clockFinding(now, now, now), VerdictOK, ""},
		{"a slow answer", clockFinding(now, now.Add(-time.Minute), now.Add(time.Minute)), VerdictOK, ""},
		{"a clock that is behind", clockFinding(now, now.Add(time.Minute), now.Add(time.Minute)), VerdictWarn, "behind"},
		{"a clock that is ahead", clockFinding(now, now.Add(-2*time.Minute), now.Add(-time.Minute)), VerdictWarn, "1 min ahead"},
		{"a local disk", filesystemFinding("a local one"), VerdictOK, ""},
		{"a network", filesystemFinding("NFS"), VerdictFail, "NFS"},
		{"who knows", filesystemFinding("FUSE"), VerdictWarn, "FUSE"},
		{"a system that is not asked", filesystemFinding(""), "", ""},
		{"MySQL", judgeReadOnly("OFF", "OFF", false), VerdictOK, ""},
		{"a replica", judgeReadOnly("ON", "OFF", true), VerdictFail, "replica"},
		{"sessions that cannot write", judgeReadOnly("OFF", "ON", false), VerdictFail, "sessions"},
		{"a flush a second", judgeFlushLog("2"), VerdictFail, "last second"},
		{"a flush a commit", judgeFlushLog("1"), VerdictOK, ""},
		{"torn pages", judgeDoublewrite("OFF"), VerdictFail, "half written"},
		{"whole pages", judgeDoublewrite("ON"), VerdictOK, ""},
		{"a lazy log", judgeSyncBinlog("0"), VerdictWarn, "sync_binlog is 0"},
		{"a log", judgeSyncBinlog("1"), VerdictOK, ""},
		{"pages that are only looked at", judgeDoublewrite("DETECT_ONLY"), VerdictFail, "DETECT_ONLY"},
		{"a short packet", judgePacket("1048576"), VerdictWarn, "1048576"},
		{"a packet", judgePacket("67108864"), VerdictOK, "33554432 bytes"},
		{"a connection that stays", judgeIdleConnection("28800"), VerdictWarn, "28800"},
		{"a connection that ends", judgeIdleConnection("60"), VerdictOK, "60 s"},
		{"MySQL 9.7", judgeMySQLVersion("9.7.4-2", "(Debian)"), VerdictOK, "MySQL 9.7.4; the library \"once\" is tested with 9.7"},
		{"MySQL 8.4", judgeMySQLVersion("8.4.0", "MySQL Community Server - GPL"), VerdictOK, "MySQL 8.4.0"},
		{"MySQL 8.0", judgeMySQLVersion("8.0.36", "MySQL Community Server - GPL"), VerdictWarn, "no longer maintained"},
		{"MySQL 5.7", judgeMySQLVersion("5.7.44-log", "MySQL Community Server (GPL)"), VerdictFail, "SKIP LOCKED"},
		{"MariaDB 10.11", judgeMySQLVersion("10.11.14-MariaDB-0+deb12u2", "Debian 12"), VerdictOK, "MariaDB 10.11.14"},
		{"MariaDB 10.5", judgeMySQLVersion("10.5.23-MariaDB", "MariaDB Server"), VerdictFail, "MariaDB 10.5.23 has no SKIP LOCKED"},
		{"another product", judgeMySQLVersion("8.0.11-TiDB-v7.5.0", "TiDB Server"), VerdictWarn, "TiDB"},
		{"no version", judgeMySQLVersion("latest", ""), VerdictWarn, "latest"},
		{"a network without TLS", judgeEncryption("", "10.1.2.3"), VerdictWarn, "can read"},
		{"a socket of this machine", judgeEncryption("", "localhost"), VerdictOK, "not encrypted"},
		{"TLS", judgeEncryption("TLS_AES_128_GCM_SHA256", "10.1.2.3"), VerdictOK, "TLS"},
		{"a group with one primary", judgeGroup("ON", "BEFORE_ON_PRIMARY_FAILOVER"), VerdictOK, "group"},
		{"Galera", judgeGroup("", ""), VerdictWarn, "Galera"},
		{"a group that answers early", judgeGroup("ON", "EVENTUAL"), VerdictWarn, "EVENTUAL"},
		{"a group with several primaries", judgeGroup("OFF", "BEFORE_ON_PRIMARY_FAILOVER"), VerdictWarn, "several primaries"},
		{"a group whose commits wait", judgeGroup("OFF", "AFTER"), VerdictOK, "AFTER"},
	} {
		if c.f.Verdict != c.want || !strings.Contains(c.f.Says, c.says) {
			t.Errorf("%s: %+v, want %s: ...%s...", c.name, c.f, c.want, c.says)
		}
	}
}

// TestDoctorIdleHosts: services that close connections are known by their names.
func TestDoctorIdleHosts(t *testing.T) {
	for host, want := range map[string]string{
		"ep-cool-darkness-123456.eu-central-1.aws.neon.tech":    "Neon",
		"app.proxy-abcdefghijkl.eu-central-1.rds.amazonaws.com": "RDS Proxy",
		"db.example.com": "does not close",
	} {
		f := idleByHost(host).judge(poolIdle)
		if !strings.Contains(f.Says, want) || (f.Verdict == VerdictWarn) != (want != "does not close") || f.Verdict == VerdictWarn && !strings.Contains(f.Try, "SetConnMaxIdleTime") {
			t.Errorf("%s: %+v", host, f)
		}
	}
}

// refusal has the fields of an error of go-sql-driver/mysql.
type refusal struct {
	Number  uint16
	Message string
}

func (r *refusal) Error() string { return r.Message }

// TestMigrationAdviceNamesTheCause: a server that refuses the SQL of a migration needs another version, and a denied user needs privileges.
func TestMigrationAdviceNamesTheCause(t *testing.T) {
	for code, want := range map[uint16]string{
		1901: "use MySQL 9.7 or MariaDB 10.11.", // MariaDB: a function that the expression may not use
		3770: "use MySQL 9.7 or MariaDB 10.11.", // MySQL: a function that a default may not use
		1142: "use the URL of a user who may create",
	} {
		if try := migrateAdvice(&refusal{code, "refused"}); !strings.HasPrefix(try, want) {
			t.Errorf("%d: %q, want %q", code, try, want)
		}
	}
}

// TestRunbooksAreThere: what a finding names as its runbook is a page.
func TestRunbooksAreThere(t *testing.T) {
	pages := 0
	for _, d := range []sqlplane.Dialect{sqlplane.PostgreSQL, sqlplane.SQLite, sqlplane.MySQL} {
		for _, c := range checks(d) {
			if c.runbook == "" {
				continue
			}
			pages++
			if _, err := os.Stat("../../docs/runbooks/" + c.runbook + ".md"); err != nil {
				t.Errorf("%s: %v", c.name, err)
			}
		}
	}
	if pages < 20 {
		t.Errorf("vacuous: %d pages", pages)
	}
}
