package guests

import (
	"bufio"
	"context"
	"errors"
	"io"
	"math"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"bakeoff/cmd/bakeoff/cli"
	"bakeoff/provision/vm"
	"bakeoff/reach/conn"
)

func (a *commands) vmLogs() *cobra.Command {
	var asJSON bool
	c := a.guestVerb("logs GUEST", "Print the output of a guest",
		`logs prints the console output of a guest. bakeoff keeps the last 10 to 20 MiB. With --json,
logs prints an object for each line. The object contains only the text: the console has no
times, and mixes standard output and standard error.`,
		"  sudo bakeoff vm logs web | tail\n  sudo bakeoff vm logs web --json | jq -r .text",
		func(_ context.Context, g *vm.Guest) error {
			var all []io.Reader
			for _, name := range []string{g.ConsoleLog() + ".1", g.ConsoleLog()} {
				f, err := os.Open(name)
				if errors.Is(err, os.ErrNotExist) {
					continue
				}
				if err != nil {
					return err
				}
				defer f.Close()
				all = append(all, f)
			}
			if asJSON {
				return a.printLines(io.MultiReader(all...))
			}
			_, err := io.Copy(a.Out, io.MultiReader(all...))
			return err
		})
	c.Flags().BoolVar(&asJSON, "json", false, "print a JSON object for each line")
	return c
}

// logLine is a line of the console of a guest.
type logLine struct {
	Text string `json:"text"` // bytes that are not UTF-8 are U+FFFD
}

func (a *commands) printLines(in io.Reader) error {
	for r := bufio.NewReader(in); ; {
		line, err := r.ReadString('\n')
		if line != "" {
			if perr := a.PrintJSON(logLine{strings.TrimSuffix(strings.TrimSuffix(line, "\n"), "\r")}); perr != nil {
				return perr
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// execOutput is the most that exec --json prints of standard output, and of standard error, in bytes.
const execOutput = 1 << 20

// execResult is what exec --json prints. The fields are those of bakeoff-agent exec --json, but the
// output is text: bytes that are not UTF-8 are U+FFFD.
type execResult struct {
	Schema    string   `json:"schema"`
	UUID      string   `json:"uuid"`
	Argv      []string `json:"argv"`
	Code      int      `json:"code"`
	Signal    string   `json:"signal,omitempty"`
	Stdout    string   `json:"stdout"`
	Stderr    string   `json:"stderr"`
	Truncated bool     `json:"truncated,omitempty"`
}

// execJSON runs a program in a guest, and prints its result.
func (a *commands) execJSON(ctx context.Context, g *vm.Guest, argv []string) (conn.Exit, error) {
	out, errs := conn.Head{Limit: execOutput}, conn.Head{Limit: execOutput}
	exit, err := g.Exec(ctx, conn.Cmd{Argv: argv, Stdin: a.In, Stdout: &out, Stderr: &errs})
	if err != nil {
		return exit, err
	}
	return exit, a.PrintJSON(execResult{vmExecSchema, g.UUID, argv, exit.Code, exit.Signal, string(out.Bytes()),
		string(errs.Bytes()), out.Cut || errs.Cut})
}

func (a *commands) vmExec() *cobra.Command {
	var tty, asJSON bool
	c := &cobra.Command{
		Use:   "exec [-t] GUEST -- COMMAND [ARGUMENT...]",
		Short: "Run a program in a guest",
		Long: `exec runs a program in a running guest: a container, or a machine that was made from a
service folder or a container image. In a machine, exec runs only one program at a time. The
exit code is that of the program. With -t, the program has a terminal: a shell has job
control, and editors know the size of the window. --json prints the exit code, and up to 1 MiB of
standard output and of standard error as text, when the program has ended.`,
		Example: "  sudo bakeoff vm exec web -- nginx -T\n  sudo bakeoff vm exec -t web -- sh\n" +
			"  sudo bakeoff vm exec web --json -- nginx -T | jq .code",
		Args: cli.Between(2, math.MaxInt, "GUEST and COMMAND"),
		RunE: a.onGuest(func(ctx context.Context, c *cobra.Command, g *vm.Guest, argv []string) (err error) {
			var exit conn.Exit
			switch {
			case tty && asJSON:
				return cli.Usage(c, errors.New("-t and --json exclude each other: a terminal is a stream"))
			case tty:
				exit, err = a.execTerminal(ctx, c, g, argv)
			case asJSON:
				exit, err = a.execJSON(ctx, g, argv)
			default:
				exit, err = g.Exec(ctx, conn.Cmd{Argv: argv, Stdin: a.In, Stdout: a.Out, Stderr: a.Err})
			}
			if err == nil && !exit.OK() {
				return cli.Exit{Code: exit.Code}
			}
			return err
		}),
	}
	c.Flags().BoolVarP(&tty, "tty", "t", false, "give the program a terminal")
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object when the program has ended")
	return c
}
