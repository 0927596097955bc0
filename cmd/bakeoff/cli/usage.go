package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"bakeoff/base/fault"
	"bakeoff/base/unit"
	"bakeoff/base/yamltree"
)

// Share is the value of a flag that takes a share: 5% or 0.05.
type Share float64

// Set implements pflag.Value. It refuses 5, which means 500 % and hardly anybody wants.
func (s *Share) Set(text string) error {
	v, err := unit.ParseShare(text)
	*s = Share(v)
	if err == nil && v >= 1 && !strings.Contains(text, "%") {
		return errPercent
	}
	return err
}

var errPercent = errors.New("a share must be below 1; if you mean a percentage, add the percent sign, as in 5%")

// String implements pflag.Value.
func (s *Share) String() string { return fmt.Sprint(float64(*s)) }

// Type implements pflag.Value; it is that of the flag in help and completions.
func (s *Share) Type() string { return "share" }

// Names is the value of a flag that takes names, separated by commas, and may be repeated.
// An empty one, as of a variable that is not set, is refused: it would ask for nothing.
type Names []string

// Set implements pflag.Value.
func (n *Names) Set(text string) error {
	for _, name := range strings.Split(text, ",") {
		if name = strings.TrimSpace(name); name == "" {
			return errors.New("a name is empty")
		}
		*n = append(*n, name)
	}
	return nil
}

// String implements pflag.Value.
func (n *Names) String() string { return strings.Join(*n, ",") }

// Type implements pflag.Value.
func (n *Names) Type() string { return "names" }

// Usage is an error in how command c was called.
func Usage(c *cobra.Command, err error) error {
	name := c.Name()
	if !c.HasParent() {
		name = "" // errors begin with the name of the program
	}
	return fault.WithFix(fault.Wrap(fault.Invalid, name, err), "see "+c.CommandPath()+" --help")
}

// ports are flags of other servers that name an address. Servers of bakeoff listen on
// 127.0.0.1 only, so their flag is the port.
var ports = []string{"listen", "bind", "addr", "address", "http"}

// FlagError returns a usage error for a flag. The library's text about a wrong
// value names a Go function; FlagError names the values that the flag takes.
func FlagError(c *cobra.Command, err error) error {
	var wrong *pflag.InvalidValueError
	var unknown *pflag.NotExistError
	if errors.As(err, &unknown) {
		if slices.Contains(ports, unknown.GetSpecifiedName()) && c.Name() == "serve" {
			return Usage(c, fmt.Errorf("%w; use --port NUMBER: %s listens on 127.0.0.1 only", err, c.Name()))
		}
		var names []string
		c.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
		if fix := yamltree.Meant(unknown.GetSpecifiedName(), names); strings.HasPrefix(fix, "did you mean") {
			err = fmt.Errorf("%w; %s", err, strings.Replace(fix, `"`, `"--`, 1))
		}
	}
	if !errors.As(err, &wrong) {
		return Usage(c, err)
	}
	var want string
	switch f := wrong.GetFlag(); f.Value.Type() {
	case "uint64":
		want = "a whole number of at least 0"
	case "int":
		want = "a whole number"
	case "intSlice":
		want = "a list of whole numbers such as 8,10,12"
	case "names":
		want = "names, separated by commas"
	case "share":
		want = "a share such as 2% or 0.02"
		if errors.Is(err, errPercent) {
			want += "; did you mean --" + wrong.GetFlag().Name + " " + wrong.GetValue() + "%?"
			return Usage(c, fmt.Errorf("--%s must be %s", wrong.GetFlag().Name, want))
		}
	case "float64":
		want = "a number such as 0.02"
	case "duration":
		want = "a time such as 90s, 20m or 1h30m"
		if _, err := unit.ParseDuration(wrong.GetValue()); errors.Is(err, unit.ErrTooLong) {
			want = "a time of at most 290 years, such as 30m"
		}
	case "bool":
		want = "true or false"
	default:
		return Usage(c, err)
	}
	return Usage(c, fmt.Errorf("--%s must be %s (got %q)", wrong.GetFlag().Name, want, wrong.GetValue()))
}

// Group makes a command whose work is done by the commands below it refuse
// everything else. what is what the user lacks, and names what to write.
func Group(c *cobra.Command, what, names string) {
	c.Args = func(c *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		fix := yamltree.Meant(args[0], strings.FieldsFunc(strings.ReplaceAll(names, " or ", ", "), func(r rune) bool {
			return r == ',' || r == ' '
		}))
		if !strings.HasPrefix(fix, "did you mean") {
			fix = "use " + names
		}
		return Usage(c, fault.New(fault.Invalid, "unknown %s %q; %s", what, args[0], fix))
	}
	c.RunE = func(c *cobra.Command, _ []string) error {
		return Usage(c, fault.New(fault.Invalid, "the %s is missing: use %s", what, names))
	}
}

// Between accepts lo to hi arguments; what names them in errors.
func Between(lo, hi int, what string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) >= lo && len(args) <= hi {
			return nil
		}
		if len(args) < lo && lo > 1 {
			return Usage(c, fmt.Errorf("the command needs %s", what))
		}
		if len(args) < lo {
			return Usage(c, fmt.Errorf("%s is missing", what))
		}
		if hi == 0 {
			return Usage(c, fmt.Errorf("unexpected argument %q: the command takes no arguments", args[0]))
		}
		return Usage(c, fmt.Errorf("unexpected argument %q: the command takes %s", args[hi], what))
	}
}

// Each requires one argument for each name, and an error names those that are missing.
func Each(names ...string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		switch missing := names[min(len(args), len(names)):]; {
		case len(args) > len(names):
			return Usage(c, fmt.Errorf("unexpected argument %q: the command takes %s", args[len(names)],
				strings.Join(names, " and ")))
		case len(missing) == 1:
			return Usage(c, fmt.Errorf("%s is missing", missing[0]))
		case len(missing) > 1:
			return Usage(c, fmt.Errorf("%s are missing", strings.Join(missing, " and ")))
		}
		return nil
	}
}

// CompleteFlag offers values for a flag, given the arguments so far.
func CompleteFlag(c *cobra.Command, name string, values func(args []string) []string) {
	err := c.RegisterFlagCompletionFunc(name, func(_ *cobra.Command, args []string, _ string) ([]string,
		cobra.ShellCompDirective) {
		return values(args), cobra.ShellCompDirectiveNoFileComp
	})
	if err != nil {
		panic(err) // the flag was defined a line above
	}
}

// CompleteFirst offers names for the first argument.
func CompleteFirst(names func() []string) func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return names(), cobra.ShellCompDirectiveNoFileComp
	}
}

// OrList is "a, b or c".
func OrList(names []string) string {
	slices.Sort(names)
	out := ""
	for i, n := range names {
		switch {
		case i > 0 && i == len(names)-1:
			out += " or "
		case i > 0:
			out += ", "
		}
		out += n
	}
	return out
}

// UnknownCommand refuses an unknown command and suggests similar ones.
func UnknownCommand(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	fix := "run bakeoff --help for a list"
	near := slices.DeleteFunc(c.SuggestionsFor(args[0]), func(name string) bool {
		return len(name) <= c.SuggestionsMinimumDistance && name[0] != args[0][0] // as near as any other word
	})
	if len(near) > 0 {
		fix = "did you mean " + strings.Join(near, " or ") + "?"
	}
	return fault.WithFix(fault.New(fault.Invalid, "unknown command %q", args[0]), fix)
}
