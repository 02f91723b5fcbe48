package postgres

// Names for the tests of this package.
var (
	SQLFiles   = sqlFiles
	Wrap       = wrap
	AcceptSQL  = acceptSQL
	ClaimSQL   = claimChargesSQL
	MessageSQL = claimMessagesSQL
	SettleSQL  = settleChargesSQL
)
