"""Compare: the sign of every noisy sum, exactly, and no party sees it (protocol.md §11.3, §11.4).

    Aggregator      holds V; with p of the payment network, D = V + p is the noisy sum
      1.  r ← Z_t per leaf;  sends  V + r                                           → PaymentNetwork
    PaymentNetwork
      2.  w = V + r + p = D + r, uniform;  sends E_S[digit j of w is v], all j, v   → Aggregator
    Aggregator
      3.  [D > 0] = [w < hi] − [w < lo] + [lo > hi],  lo = r + 1, hi = r + (t+1)/2 mod t
          b ← Z_t per leaf;  sends sanitised E_S[label − b]                         → PaymentNetwork
          and b to the banks (sealed), or to the payment network (released)
    PaymentNetwork
      4.  decrypts its share label − b

Ties give 0.  The aggregator sees ciphertexts, the payment network uniform values.
"""
