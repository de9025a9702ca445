"""Ask live: bits about accounts while payments are on their way (protocol.md §6).

The figure is that of `score`, with one ciphertext for all tables of a bank.  Time is cut into
*ticks* of a public, constant length; every bank gets one query per tick, whether there are
questions or not.  A question is an account, in slot `slot` of block `block` over all of the bank's
routed tables in force, and a set A; with c_k = [k in A] − [absent in A] and D = −Σ_k c_k·E_j[s_k],
made once per block and set,

    PaymentNetwork, beforehand
      0.  masks: ρ ← Z_t per slot;  M = Enc_j(0) + t·e + ρ, e uniform: each for one query, then gone
    PaymentNetwork, each tick
      1.  a weight w for each question, different within a track;  sends at the next tick
          Z = Σ_questions 2^w·onehot(slot)·D[block, A] + M,  at one prime                     → Bank
    Bank
      2.  opens Z, uniform;  returns the sum over the slots of each track, R_l, modulo t
                                                                                    → PaymentNetwork
    PaymentNetwork
      3.  Σ_track 2^w·([absent in A] + Σ_k c_k·u_k) + R_l − Σ_track ρ  =  Σ_track 2^w·bit

A *track* is every 64th slot.  A value modulo t holds ⌊log2 t⌋ bits, so a track takes that many
questions, whatever their blocks, slots and sets.  S checks that all other bits are 0.

The bank learns that a tick has passed.  S learns the bits, and asks by the rules of `score`: each
(account, set) once in an epoch.  A query that gets lost is asked again in another tick with another
mask: the same bits.  The same query gets the same reply; another one for the same tick is refused.
Broadcast tables are not asked live.
"""
