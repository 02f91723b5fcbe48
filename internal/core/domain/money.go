package domain

// Money is an amount in minor units of its currency: kopecks for RUB, yen for JPY.
type Money struct {
	Minor    int64
	Currency string // three upper-case letters of ISO 4217
}
