package locale

import (
	"fmt"
	"strings"
	"time"
)

// Format writes a time by a format of strftime(3), with the names of months and days of
// the language. An unknown conversion stays as it is.
func (l *Locale) Format(format string, t time.Time) string {
	var out strings.Builder
	for i := 0; i < len(format); i++ {
		if format[i] != '%' || i+1 == len(format) {
			out.WriteByte(format[i])
			continue
		}
		i++
		bare := false
		if (format[i] == '-' || format[i] == 'E' || format[i] == 'O') && i+1 < len(format) {
			bare = format[i] == '-' // no padding, as in GNU date
			i++
		}
		s := l.conversion(format[i], t)
		if bare && len(s) == 2 {
			s = strings.TrimLeft(s[:1], "0 ") + s[1:]
		}
		out.WriteString(s)
	}
	return out.String()
}

func (l *Locale) conversion(c byte, t time.Time) string {
	switch c {
	case 'A':
		return l.Days[t.Weekday()]
	case 'a':
		return l.DaysShort[t.Weekday()]
	case 'B':
		return l.Months[t.Month()-1]
	case 'b', 'h':
		return l.MonthsShort[t.Month()-1]
	case 'e':
		return fmt.Sprintf("%2d", t.Day())
	case 'j':
		return fmt.Sprintf("%03d", t.YearDay())
	case 's':
		return fmt.Sprint(t.Unix())
	case 'u':
		return fmt.Sprint((int(t.Weekday())+6)%7 + 1)
	case 'n':
		return "\n"
	case 't':
		return "\t"
	case '%':
		return "%"
	}
	if layout, ok := conversions[c]; ok {
		return t.Format(layout)
	}
	return "%" + string(c)
}

var conversions = map[byte]string{'Y': "2006", 'y': "06", 'm': "01", 'd': "02", 'H': "15", 'I': "03", 'M': "04",
	'S': "05", 'p': "PM", 'Z': "-07:00", 'z': "-0700", 'F': "2006-01-02", 'T': "15:04:05", 'R': "15:04", 'D': "01/02/06",
	'c': "Mon Jan _2 15:04:05 2006", 'x': "01/02/06", 'X': "15:04:05"}
