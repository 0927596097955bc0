package index

import (
	"context"
	"database/sql"
	"errors"
	"io/fs"
	"net/url"
	"os"
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
		return nil, damaged(file, fault.Wrap(fault.Lab, "index "+file, err))
	}
	x := &Index{db: db, dialect: sqlite}
	err = x.migrate(ctx)
	if err == nil {
		// SQLite reads the tables at the first query: a file that is cut is found here.
		err = x.db.QueryRowContext(ctx, "SELECT count(*) FROM (SELECT id FROM run LIMIT 1)").Scan(new(int))
	}
	if err != nil {
		x.Close()
		return nil, damaged(file, fault.Op(file, err))
	}
	return x, nil
}

// damaged says what to do about a file that is damaged, or no database.
func damaged(file string, err error) error {
	if errors.Is(err, sqlite3.CORRUPT) || errors.Is(err, sqlite3.NOTADB) {
		return fault.WithFix(fault.New(fault.Lab, "the index %s is damaged: %w", file, err), "run bakeoff store rebuild")
	}
	return err
}

// RemoveDamaged removes the file of an index that SQLite cannot read in full. The index can then be
// made again.
func RemoveDamaged(ctx context.Context, file string) error {
	x, err := openSQLite(ctx, file)
	if err == nil {
		var found string
		err = x.db.QueryRowContext(ctx, "PRAGMA quick_check(1)").Scan(&found)
		if err == nil && found != "ok" {
			err = sqlite3.CORRUPT
		}
		err = errors.Join(err, x.Close())
	}
	if !errors.Is(err, sqlite3.CORRUPT) && !errors.Is(err, sqlite3.NOTADB) {
		return err
	}
	for _, end := range []string{"", "-wal", "-shm"} {
		if err := os.Remove(file + end); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fault.Wrap(fault.Lab, "index", err)
		}
	}
	return nil
}
