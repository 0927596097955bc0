package index

import (
	"context"
	"database/sql"
	"net/url"
	"time"

	"github.com/ncruces/go-sqlite3"
	"github.com/ncruces/go-sqlite3/driver"

	"bakeoff/base/fault"
)

// sqlite keeps the index of one person, in a file. Commits are on the disk when they
// return. busy_timeout is in milliseconds, cache_size in KiB of each connection.
var sqlite = dialect{name: "SQLite", id: "INTEGER PRIMARY KEY", text: "TEXT", check: notEmpty,
	list: "(SELECT value FROM json_each($1))",
	bulk: "PRAGMA cache_size = -65536", analyze: "ANALYZE", watch: poll}

// poll asks for the version of the data each second, which others change.
func poll(ctx context.Context, conn *sql.Conn, changed func()) error {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for last := int64(-1); ; {
		var now int64
		if err := conn.QueryRowContext(ctx, "PRAGMA data_version").Scan(&now); err != nil {
			return err
		}
		if now != last {
			last = now
			changed()
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
}

// notEmpty refuses a text without a statement, such as a comment: the driver would panic.
func notEmpty(conn any, text string) error {
	stmt, _, err := conn.(driver.Conn).Raw().Prepare(text)
	switch {
	case err != nil:
		return err
	case stmt == nil:
		return fault.New(fault.Invalid, "the query is empty")
	}
	return stmt.Close()
}

func openSQLite(ctx context.Context, file string) (*Index, error) {
	place := "file:" + (&url.URL{Path: file}).EscapedPath() + "?_txlock=immediate"
	db, err := driver.Open(place, func(c *sqlite3.Conn) error {
		return c.Exec(`PRAGMA busy_timeout = 60000; PRAGMA journal_mode = wal; PRAGMA synchronous = full;
			PRAGMA foreign_keys = on; PRAGMA cache_size = -16384; PRAGMA trusted_schema = off;
			PRAGMA analysis_limit = 1000`)
	})
	if err != nil {
		return nil, fault.Wrap(fault.Lab, "index "+file, err)
	}
	x := &Index{db: db, dialect: sqlite}
	if err := x.migrate(ctx); err != nil {
		x.Close()
		return nil, fault.Op(file, err)
	}
	return x, nil
}
