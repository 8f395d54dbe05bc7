// Package mysqlurl reads URLs of MySQL and MariaDB, which the driver does not.
package mysqlurl

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"

	"github.com/go-sql-driver/mysql"
)

// Is reports whether s is such a URL.
func Is(s string) bool { return strings.HasPrefix(s, "mysql://") || strings.HasPrefix(s, "mariadb://") }

// Parse reads mysql://user:password@host:port/name. The query has parameters of the driver, such
// as ?tls=true, and variables of the session. An error does not show the password.
func Parse(s string) (*mysql.Config, error) {
	u, err := url.Parse(s)
	if err != nil || !Is(s) || u.Hostname() == "" {
		return nil, errors.New("this is not the URL of a MySQL or MariaDB server")
	}
	for name := range u.Query() {
		if n := strings.ToLower(strings.NewReplacer("-", "", "_", "").Replace(name)); n == "sslmode" || n == "usessl" {
			return nil, fmt.Errorf("%s is a parameter of other programs: use tls=true, tls=skip-verify or tls=preferred", name)
		}
	}
	cfg, err := mysql.ParseDSN("/?" + u.RawQuery)
	if err != nil {
		return nil, err
	}
	port := u.Port()
	if port == "" {
		port = "3306"
	}
	cfg.Net, cfg.Addr, cfg.DBName = "tcp", net.JoinHostPort(u.Hostname(), port), strings.TrimPrefix(u.Path, "/")
	if cfg.DBName == "" {
		return nil, errors.New("the URL names no database on the server")
	}
	cfg.User = u.User.Username()
	cfg.Passwd, _ = u.User.Password()
	if !u.Query().Has("multiStatements") { // sqlstore.Open has the same defaults
		cfg.InterpolateParams, cfg.MultiStatements = true, true
	}
	return cfg, nil
}
