package env

import (
	"context"
	"math"
	"strconv"
	"strings"
	"time"

	"bakeoff/base/fault"
	"bakeoff/reach/conn"
)

// meterTime bounds one reading of a meter, and meterBytes the length of its
// output.
const (
	meterTime  = 5 * time.Second
	meterBytes = 256
)

// readMeter executes the user's command on the host and returns the joules that
// it prints. Errors are of kind fault.Lab and say what the command must print.
func readMeter(ctx context.Context, host conn.Conn, argv []string) (*float64, error) {
	ctx, cancel := context.WithTimeout(ctx, meterTime)
	defer cancel()
	out, said := first{limit: meterBytes}, conn.Tail{Limit: meterBytes}
	exit, err := host.Exec(ctx, conn.Cmd{Argv: argv, Stdout: &out, Stderr: &said})
	op := "the meter " + argv[0]
	switch {
	case err != nil:
		return nil, fault.Wrap(fault.Lab, op, err)
	case !exit.OK():
		return nil, fault.New(fault.Lab, "%s: %v: %s", op, exit, strings.TrimSpace(string(said.Bytes())))
	}
	text := strings.TrimSpace(string(out.text))
	j, err := strconv.ParseFloat(text, 64)
	if err != nil || out.over || math.IsNaN(j) || math.IsInf(j, 0) || j < 0 {
		return nil, fault.WithFix(fault.New(fault.Lab, "%s must print one number (got %q)", op, text),
			"print the joules since a fixed moment in the past, such as 12345.6")
	}
	return &j, nil
}

// first keeps the beginning of a stream.
type first struct {
	limit int
	text  []byte
	over  bool
}

func (f *first) Write(p []byte) (int, error) {
	room := f.limit - len(f.text)
	f.text = append(f.text, p[:min(room, len(p))]...)
	f.over = f.over || len(p) > room
	return len(p), nil
}
