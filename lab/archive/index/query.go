package index

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"time"

	"bakeoff/base/fault"
)

// Query answers a question in SQL. It cannot change the index. row gets the values of each
// row until it returns an error. Errors in the SQL are of kind fault.Invalid.
func (x *Index) Query(ctx context.Context, text string, args []any, head func([]string) error,
	row func([]any) error) error {
	conn, err := x.db.Conn(ctx)
	if err != nil {
		return fault.Op("index", err)
	}
	defer func() { // nothing else uses a connection that cannot write
		_ = conn.Raw(func(any) error { return driver.ErrBadConn })
		_ = conn.Close()
	}()
	tx, err := conn.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return fault.Op("index", err)
	}
	defer func() { _ = tx.Rollback() }()
	// PostgreSQL lets nobody leave a read-only transaction after its first question.
	var one int
	if err := tx.QueryRowContext(ctx, `SELECT 1`).Scan(&one); err != nil {
		return fault.Op("index", err)
	}
	if x.dialect.check != nil {
		if err := conn.Raw(func(c any) error { return x.dialect.check(c, text) }); err != nil {
			return refused(ctx, err)
		}
	}
	rows, err := tx.QueryContext(ctx, text, args...)
	if err != nil {
		return refused(ctx, err)
	}
	defer rows.Close()
	names, err := rows.Columns()
	if err != nil {
		return refused(ctx, err)
	}
	if err := head(names); err != nil {
		return err
	}
	for rows.Next() {
		values := make([]any, len(names))
		to := make([]any, len(names))
		for i := range values {
			to[i] = &values[i]
		}
		if err := rows.Scan(to...); err != nil {
			return refused(ctx, err)
		}
		for i, v := range values {
			switch v := v.(type) {
			case []byte:
				values[i] = string(v)
			case time.Time: // the driver of SQLite makes one of a text that looks like it
				values[i] = v.Format(time.RFC3339Nano)
			}
		}
		if err := row(values); err != nil {
			return err
		}
	}
	return refused(ctx, rows.Err())
}

func refused(ctx context.Context, err error) error {
	if err == nil || ctx.Err() != nil {
		return fault.Op("query", err)
	}
	return fault.Wrap(fault.Invalid, "query", err)
}
