package index

import (
	"context"
	"database/sql"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"bakeoff/base/fault"
)

// postgres keeps the index of several people. The number in lock is an arbitrary one that
// all bakeoffs share.
var postgres = dialect{name: "PostgreSQL", id: "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
	text: `TEXT COLLATE "C"`, lock: "SELECT pg_advisory_xact_lock(7165064744911531008)", copy: copyRows,
	list: "(SELECT json_array_elements_text($1::json))",
	// The first query that checks a foreign key chooses how the later ones do. It sees an empty
	// table, and would read all of it each time when it has 100,000 rows.
	bulk:   "SET LOCAL enable_seqscan = off",
	notify: "NOTIFY bakeoff_runs", watch: listen,
	// Without VACUUM, an index does not suffice to read a column that it has.
	analyze: "VACUUM (ANALYZE) host, run, label, series, comparison, tally, seen, past, part"}

func openPostgres(ctx context.Context, place string) (*Index, error) {
	config, err := pgx.ParseConfig(place)
	if err != nil { // its text may have a password
		return nil, fault.WithFix(fault.New(fault.Invalid, "the address of the database cannot be read"),
			"write postgres://USER@HOST/DATABASE")
	}
	x := &Index{db: stdlib.OpenDB(*config), dialect: postgres}
	if err := x.migrate(ctx); err != nil {
		x.Close()
		return nil, fault.Op("database "+config.Database+" on "+config.Host, err)
	}
	return x, nil
}

// listen waits for notify.
func listen(ctx context.Context, conn *sql.Conn, changed func()) error {
	return conn.Raw(func(c any) error {
		own := c.(*stdlib.Conn).Conn()
		if _, err := own.Exec(ctx, "LISTEN bakeoff_runs"); err != nil {
			return err
		}
		for {
			changed()
			if _, err := own.WaitForNotification(ctx); err != nil {
				return err
			}
		}
	})
}

// copyRows sends rows by COPY, which is faster than one query for each.
func copyRows(ctx context.Context, conn *sql.Conn, rows [][]any) error {
	return conn.Raw(func(c any) error {
		_, err := c.(*stdlib.Conn).Conn().CopyFrom(ctx, pgx.Identifier{"comparison"}, []string{"run", "series", "began",
			"verdict", "ratio", "low", "high", "blocks", "is_primary"}, pgx.CopyFromRows(rows))
		return err
	})
}
